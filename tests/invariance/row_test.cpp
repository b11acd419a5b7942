// A row's result depends on that row: not on its neighbours, their order, their magnitude, or on what lies in
// memory that it does not own.
#include "invariance/invariance.h"
#include "support/packed_run.h"
#include "support/resolved.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class RowAlone : public RecipeTest {};
MINITE_RECIPES(RowAlone, Which::row_local);

float noise(uint64_t i, uint64_t stream) {
  return static_cast<float>(Philox::generate(77, i, stream)[0] >> 8) * 0x1p-23f - 1.0f;
}

ResolvedLinear resolved(const std::string& recipe, int64_t n, int64_t k) {
  return test_support::resolved_linear("layer", recipe, n, k);
}

/// One linear layer, its weight forms, and memory for `rows` rows.
struct Layer1 {
  static constexpr int64_t kN = 64, kK = 48;
  const OpTable& table;
  ThreadPool pool{2};
  Linear linear;
  Buffer memory, w_memory, scratch;
  LinearWeights w;

  Layer1(const std::string& recipe, const OpTable& t, int64_t rows)
      : table(t),
        linear(resolved(recipe, kN, kK), DType::bf16, t, Policy{}),
        scratch(linear.scratch(rows, 2)) {
    Arena measure;
    place_weights(measure);
    w_memory = Buffer(measure.peak());
    Arena arena(w_memory);
    place_weights(arena);
    for (int64_t i = 0; i < kN * kK; ++i) {
      const float x = noise(static_cast<uint64_t>(i), 1);
      if (w.dense.dtype == DType::bf16) w.dense.as<bf16>()[i] = bf16(x);
      if (w.dense.dtype == DType::f32) w.dense.as<float>()[i] = x;
    }
    if (!w.fprop.empty()) ops::quantize(context(), {w.dense, Orientation::rows, w.fprop});
  }
  void place_weights(Arena& arena) {
    const QuantSpec& spec = linear.params().fprop.b;
    const DType dense = spec.format == FormatId::fp32 ? DType::f32 : DType::bf16;
    w.dense = arena.take_tensor(dense, kN, kK);
    if (linear.needs().quantized_w) w.fprop = arena.take_qtensor(spec, kN, kK);
  }
  [[nodiscard]] Context context() const {
    return {&table,
            const_cast<ThreadPool*>(&pool),
            nullptr,
            {scratch.data(), static_cast<size_t>(scratch.size())}};
  }
  /// y of every row of x [T,K].
  std::vector<std::vector<bf16>> forward(const std::vector<std::vector<bf16>>& x) {
    const auto rows = static_cast<int64_t>(x.size());
    const QuantSpec& spec = linear.params().fprop.a;
    const int64_t codes = spec.quantized() ? QTensor::bytes(spec, rows, kK) : 0;
    memory = Buffer(align_up(rows * kK * 2) + align_up(rows * kN * 2) + align_up(codes));
    poison(memory);
    poison(scratch);
    Arena arena(memory);
    const TensorView xs = arena.take_tensor(DType::bf16, rows, kK),
                     y = arena.take_tensor(DType::bf16, rows, kN);
    LinearSaved saved;
    if (spec.quantized()) saved.xq = arena.take_qtensor(spec, rows, kK);
    for (int64_t r = 0; r < rows; ++r) std::copy_n(x[static_cast<size_t>(r)].data(), kK, xs.row<bf16>(r));
    linear.forward(context(), xs, w, y, saved);
    std::vector<std::vector<bf16>> out;
    for (int64_t r = 0; r < rows; ++r) out.emplace_back(y.row<bf16>(r), y.row<bf16>(r) + kN);
    return out;
  }
};

std::vector<std::vector<bf16>> random_rows(int64_t count, float scale) {
  std::vector<std::vector<bf16>> rows(static_cast<size_t>(count));
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int64_t k = 0; k < Layer1::kK; ++k)
      rows[r].push_back(bf16(noise(static_cast<uint64_t>(k), 100 + r) * scale));
  }
  return rows;
}

TEST_P(RowAlone, LinearIgnoresTheOtherRows) {
  constexpr size_t kRows = 37;
  const auto x = random_rows(kRows, 1.0f), large = random_rows(kRows, 1e4f);
  for (const OpTable* table : cpu_tables()) {
    Layer1 layer(GetParam(), *table, kRows);
    const auto batch = layer.forward(x);
    std::vector<std::vector<bf16>> reversed(x.rbegin(), x.rend());
    const auto back = layer.forward(reversed);
    for (size_t r = 0; r < kRows; ++r) {
      const std::string what = fmt::format("{} row {}", table->name, r);
      ASSERT_TRUE(same_bits(layer.forward({x[r]})[0], batch[r])) << what << " alone";
      ASSERT_TRUE(same_bits(back[kRows - 1 - r], batch[r])) << what << " in another order";
      auto loud = large;
      loud[r] = x[r];
      ASSERT_TRUE(same_bits(layer.forward(loud)[r], batch[r])) << what << " among rows 10000 times larger";
    }
  }
}

TEST_P(RowAlone, ANonFiniteRowStaysAlone) {
  constexpr size_t kRows = 19;
  const auto x = random_rows(kRows, 1.0f);
  for (const OpTable* table : cpu_tables()) {
    Layer1 layer(GetParam(), *table, kRows);
    const auto batch = layer.forward(x);
    auto damaged = x;
    damaged[7][5] = bf16::from_bits(0x7FC0);
    damaged[11][0] = bf16::from_bits(0x7F80);
    const auto y = layer.forward(damaged);
    for (size_t r = 0; r < kRows; ++r) {
      if (r != 7 && r != 11) {
        ASSERT_TRUE(same_bits(y[r], batch[r])) << table->name << " row " << r;
      }
    }
  }
}

/// The log-probs of sequence 0 when it runs beside `others`; slots are given in `order`.
PackedRun::Result beside(PackedRun& run, const std::vector<int32_t>& tokens,
                         const std::vector<std::vector<int32_t>>& others, bool first) {
  const auto length = [](const std::vector<int32_t>& t) { return static_cast<int64_t>(t.size()) - 1; };
  PackedRows rows;
  if (first) rows.add(tokens, 2, 0, length(tokens));
  for (size_t i = 0; i < others.size(); ++i) {
    rows.add(others[i], i == 0 ? 0 : static_cast<int32_t>(i + 2), 0, length(others[i]));
  }
  const size_t at = first ? 0 : rows.token.size();
  if (!first) rows.add(tokens, 2, 0, length(tokens));
  PackedRun::Result all = run.run(rows.rows(), rows.target);
  const size_t n = tokens.size() - 1, row_bytes = all.hidden.size() / rows.token.size();
  const auto cut = [](auto& v, size_t begin, size_t count) {
    v = {v.begin() + static_cast<std::ptrdiff_t>(begin),
         v.begin() + static_cast<std::ptrdiff_t>(begin + count)};
  };
  cut(all.hidden, at * row_bytes, n * row_bytes);
  cut(all.logp, at, n);
  cut(all.entropy, at, n);
  return all;
}

void check_network_alone(const ModelConfig& config, const std::string& recipe) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 31);
  for (const OpTable* table : cpu_tables()) {
    const int64_t length = table == &ref::table() ? 20 : 100;
    const auto other = [&](int64_t n, uint64_t stream) {
      return random_tokens(n + 1, config.vocab_size, 6, stream);
    };
    const auto tokens = other(length, 0);
    Sides sides(weights, {.recipe = recipe, .table = table, .threads = 3});
    PackedRun run(sides.network, *table, sides.pool, 5, 130);
    const PackedRun::Result alone = beside(run, tokens, {}, true);
    const auto shorter = std::vector{other(3, 1), other(length / 2, 2)};
    const auto longer = std::vector{other(length + 17, 3), other(1, 4), other(length, 5)};
    for (const bool first : {true, false}) {
      EXPECT_TRUE(beside(run, tokens, shorter, first) == alone) << table->name;
      EXPECT_TRUE(beside(run, tokens, longer, first) == alone) << table->name;
      run.poison();
      EXPECT_TRUE(beside(run, tokens, shorter, first) == alone) << table->name << " after poison";
    }
    // Poisoned before each piece of a prompt, except for the keys and values that were written.
    run.poison();
    PackedRows head, tail;
    head.add(tokens, 2, 0, length / 2);
    tail.add(tokens, 2, length / 2, length);
    const auto a = run.run(head.rows(), head.target), b = run.run(tail.rows(), tail.target);
    std::vector<float> logp = a.logp;
    logp.insert(logp.end(), b.logp.begin(), b.logp.end());
    EXPECT_TRUE(same_bits(logp, alone.logp)) << table->name << " in two pieces after poison";
  }
}

TEST_P(RowAlone, NetworkIgnoresOtherSequencesAndPoisonedMemory) {
  check_network_alone(tiny_config(24), GetParam());
}
/// The neighbours change how many rows each expert gets.
TEST_P(RowAlone, ExpertsIgnoreOtherSequencesAndPoisonedMemory) {
  check_network_alone(tiny_experts(24), GetParam());
}

TEST_P(RowAlone, LearnerIgnoresLeftoversOfEarlierCalls) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 32);
  Sides sides(weights, {.recipe = GetParam(), .threads = 2});
  const std::vector<Sequence> small = {{random_tokens(20, 40, 1, 1), 3}};
  std::vector<Sequence> large;
  for (uint64_t s = 0; s < 9; ++s)
    large.push_back({random_tokens(30 + 13 * static_cast<int64_t>(s), 40, 2, s), 1});
  const Scores fresh = score(sides.learner, small);
  (void)score(sides.learner, large);
  EXPECT_TRUE(same_bits(score(sides.learner, small), fresh));
}

}  // namespace
}  // namespace minite::invariance
