// A mixture of experts is one Linear an expert: the same bits, forward and backward, whatever the others get.
#include "invariance/invariance.h"
#include "modules/grouped_linear.h"
#include "support/resolved.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class Experts : public RecipeTest {};
MINITE_RECIPES(Experts, Which::row_local);

constexpr int64_t kN = 64, kK = 96;
constexpr std::array<int32_t, 7> kOffsets = {0, 0, 1, 34, 34, 51, 51};  // empty groups first, inside and last

ResolvedLinear resolved(const std::string& recipe) {
  return test_support::resolved_linear("experts", recipe, kN, kK);
}

/// Weights of all experts, an input and an output gradient.
struct Bench {
  const OpTable& table;
  ThreadPool pool{2};
  Groups groups{kOffsets};  // before those that are made from it
  Linear linear;
  GroupedLinear grouped;
  Buffer memory{1 << 22}, scratch;
  Arena arena{memory};
  std::vector<LinearWeights> w;
  TensorView x, dy;
  uint64_t stream = 1;

  Bench(const std::string& recipe, const OpTable& t)
      : table(t),
        linear(resolved(recipe), DType::bf16, t, Policy{}),
        grouped(groups.count(), resolved(recipe), DType::bf16, t, Policy{}),
        scratch(grouped.scratch(groups.total(), 2)) {
    const QLinearParams& p = linear.params();
    const DType dense = p.fprop.b.format == FormatId::fp32 ? DType::f32 : DType::bf16;
    for (int64_t g = 0; g < groups.count(); ++g) {
      LinearWeights each;
      each.dense = random(dense, kN, kK);
      if (linear.needs().quantized_w) each.fprop = arena.take_qtensor(p.fprop.b, kN, kK);
      if (linear.needs().quantized_w) ops::quantize(context(), {each.dense, Orientation::rows, each.fprop});
      if (linear.needs().dgrad_codes) each.dgrad = arena.take_qtensor(p.dgrad.b, kK, kN);
      if (linear.needs().dgrad_codes)
        ops::quantize(context(), {each.dense, Orientation::columns, each.dgrad});
      if (linear.needs().dequantized_w) each.dequantized = arena.take_tensor(DType::bf16, kN, kK);
      if (linear.needs().dequantized_w) ops::dequantize(context(), {each.fprop, each.dequantized});
      w.push_back(each);
    }
    x = random(DType::bf16, groups.total(), kK);
    dy = random(DType::bf16, groups.total(), kN);
  }
  TensorView random(DType dtype, int64_t rows, int64_t cols) {
    const TensorView t = arena.take_tensor(dtype, rows, cols);
    ++stream;
    for (int64_t i = 0; i < t.size(); ++i) {
      const float v =
          static_cast<float>(Philox::generate(5, static_cast<uint64_t>(i), stream)[0] >> 8) * 0x1p-23f - 1.0f;
      dtype == DType::f32 ? static_cast<void>(t.as<float>()[i] = v)
                          : static_cast<void>(t.as<bf16>()[i] = bf16(v));
    }
    return t;
  }
  [[nodiscard]] Context context() {
    return {&table, &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}};
  }
  [[nodiscard]] LinearSaved saved(int64_t rows) {
    const QuantSpec& spec = linear.params().fprop.a;
    return {{}, spec.quantized() ? arena.take_qtensor(spec, rows, kK) : QTensor{}};
  }
};

TEST_P(Experts, AreOneLinearEach) {
  for (const OpTable* table : cpu_tables()) {
    Bench b(GetParam(), *table);
    const int64_t rows = b.groups.total();
    const TensorView y = b.arena.take_tensor(DType::bf16, rows, kN),
                     dx = b.arena.take_tensor(DType::bf16, rows, kK),
                     dw = b.arena.take_tensor(DType::f32, b.groups.count() * kN, kK);
    std::memset(dw.data, 0, static_cast<size_t>(dw.size()) * 4);  // weight gradients accumulate
    LinearSaved all = b.saved(rows);
    b.grouped.forward(b.context(), b.x, b.groups, b.w, y, all);
    const Buffer temp(b.grouped.backward_bytes(rows));
    Arena working(temp);
    b.grouped.backward(b.context(), working, b.dy, b.groups, all, b.w, dx, dw);
    for (int64_t g = 0; g < b.groups.count(); ++g) {
      const int64_t begin = b.groups.begin(g), count = b.groups.rows(g);
      const TensorView each_dw = b.arena.take_tensor(DType::f32, kN, kK);
      std::memset(each_dw.data, 0, static_cast<size_t>(each_dw.size()) * 4);
      if (count > 0) {
        const LinearWeights& w = b.w[static_cast<size_t>(g)];
        const TensorView each_y = b.arena.take_tensor(DType::bf16, count, kN),
                         each_dx = b.arena.take_tensor(DType::bf16, count, kK);
        LinearSaved one = b.saved(count);
        b.linear.forward(b.context(), b.x.slice_rows(begin, count), w, each_y, one);
        const Buffer each_temp(b.linear.backward_bytes(count));
        Arena each_working(each_temp);
        b.linear.backward(b.context(), each_working, b.dy.slice_rows(begin, count), one, w, each_dx, each_dw);
        EXPECT_EQ(bytes_of(y.slice_rows(begin, count)), bytes_of(each_y)) << table->name << " y of " << g;
        EXPECT_EQ(bytes_of(dx.slice_rows(begin, count)), bytes_of(each_dx)) << table->name << " dx of " << g;
      }
      EXPECT_EQ(bytes_of(dw.slice_rows(g * kN, kN)), bytes_of(each_dw)) << table->name << " dw of " << g;
    }
  }
}

/// However rows are spread, what backward takes stays within backward_bytes().
TEST_P(Experts, WorkingMemoryHoldsForAnyLoad) {
  Bench b(GetParam(), fast_table());
  constexpr int32_t kRows = 51;
  const TensorView dx = b.arena.take_tensor(DType::bf16, kRows, kK),
                   y = b.arena.take_tensor(DType::bf16, kRows, kN),
                   dw = b.arena.take_tensor(DType::f32, b.groups.count() * kN, kK);
  const std::vector<std::vector<int32_t>> loads = {{0, 51, 51, 51, 51, 51, 51},
                                                   {0, 1, 2, 3, 4, 5, 51},
                                                   {0, 17, 18, 19, 36, 37, 51},
                                                   {0, 33, 34, 35, 36, 50, 51}};
  const Buffer temp(b.grouped.backward_bytes(kRows));
  for (const auto& offset : loads) {
    LinearSaved saved = b.saved(kRows);
    b.grouped.forward(b.context(), b.x, Groups{offset}, b.w, y, saved);
    Arena working(temp);
    EXPECT_NO_THROW(b.grouped.backward(b.context(), working, b.dy, Groups{offset}, saved, b.w, dx, dw));
  }
}

class ExpertUnits : public RecipeTest {};
MINITE_RECIPES(ExpertUnits, Which::all);

/// Each expert is a quantization unit of its own: its codes are those of its weight alone.
TEST_P(ExpertUnits, AreQuantizedExpertByExpert) {
  const ModelConfig config = tiny_experts();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 71);
  const Parameter& p = weights.at("layers.1.experts.gate_up");
  const int64_t rows = 2 * config.moe_intermediate_size;
  for (int64_t i = 0; i < rows * p.spec.cols; ++i) p.master.as<float>()[i] *= 100.0f;  // the first is larger
  weights.round_masters();
  Sides sides(weights, {.recipe = GetParam(), .policy = {Policy::Kind::fastest, {}}});
  const QLinearParams& params = get_recipe(GetParam()).params;
  const auto forms = sides.cache.add_units("layers.1.experts.gate_up", params);
  ASSERT_EQ(forms.size(), 6u);
  sides.cache.refresh(sides.learner.context());
  for (size_t e = 0; e < forms.size(); ++e) {
    const TensorView dense = p.weight.slice_rows(static_cast<int64_t>(e) * rows, rows);
    if (!params.fprop.b.quantized()) continue;
    const Buffer memory(QTensor::bytes(params.fprop.b, rows, p.spec.cols));
    const QTensor q = QTensor::place(params.fprop.b, rows, p.spec.cols, memory.data());
    ops::quantize(sides.learner.context(), {dense, Orientation::rows, q});
    const auto bytes = [&](const QTensor& t) {
      std::vector<uint8_t> all(t.codes, t.codes + rows * t.code_stride());
      all.insert(all.end(), t.block_scales, t.block_scales + rows * t.scale_stride());
      const auto* outer = reinterpret_cast<const uint8_t*>(t.outer);
      if (t.outer_count() > 0) all.insert(all.end(), outer, outer + t.outer_count() * 4);
      return all;
    };
    EXPECT_EQ(bytes(forms[e].fprop), bytes(q)) << e;
  }
}

TEST(ExpertsRouter, ARuleThatQuantizesItIsRefused) {
  const ModelConfig config = tiny_experts();
  Weights weights(config, DType::bf16, Purpose::training);
  WeightCache cache(weights);
  const auto rules =
      parse_rules("rules:\n  - match: layers.1.router\n    recipe: nvfp4_per_token_bf16_bwd\n", "rules.yaml");
  const auto all = resolve("bf16", rules, linear_modules(config), 2);
  try {
    const Network network(weights, cache, all, fast_table(), Policy{});
    FAIL() << "a quantized router was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    const std::string text = error.what();
    for (const char* part : {"layers.1.router", "nvfp4_per_token_bf16_bwd", "rule 1"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace minite::invariance
