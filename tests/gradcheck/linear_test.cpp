// The Linear module: in FP64 against central differences, and in every recipe against FP64 products of the
// decoded operands that the recipe names.
#include "modules/linear.h"

#include "backends/ref/quantize.h"
#include "gradcheck/differences.h"
#include "support/resolved.h"
#include "support/tiny_model.h"

namespace minite::gradcheck {
namespace {

ResolvedLinear resolved(const std::string& recipe, int64_t n, int64_t k) {
  return test_support::resolved_linear("layer", recipe, n, k);
}

TEST(LinearFp64, BackwardIsTheGradientOfForward) {
  Reference ref;
  constexpr int64_t kRows = 5, kN = 7, kK = 6;
  const Linear linear(resolved("fp32", kN, kK), DType::f64, ref::table(), Policy{});
  Matrix x = Matrix::random(kRows, kK, 31), w = Matrix::random(kN, kK, 32), c = Matrix::random(kRows, kN, 33);
  Matrix y(kRows, kN), dx(kRows, kK), dw(kN, kK);
  LinearWeights weights;
  weights.dense = w.view();
  LinearSaved saved;
  const Loss loss = [&] {
    linear.forward(ref.context(), x.view(), weights, y.view(), saved);
    return y.dot(c);
  };
  (void)loss();
  std::fill(dw.data.begin(), dw.data.end(), 0.25);  // gradients accumulate
  Arena temp(nullptr, 0);
  EXPECT_EQ(linear.backward_bytes(kRows), 0);
  linear.backward(ref.context(), temp, c.view(), saved, weights, dx.view(), dw.view());
  for (double& g : dw.data) g -= 0.25;
  check_elements("dx", x.data, dx.data, loss);
  check_elements("dw", w.data, dw.data, loss);
}

// --- quantized products ------------------------------------------------------------------------------

/// [rows, cols] in FP64 of what a product reads.
using Values = Matrix;

Values values_of(const TensorView& t, Orientation along) {
  const bool rows = along == Orientation::rows;
  Values out(rows ? t.rows : t.cols, rows ? t.cols : t.rows);
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      const int64_t i = rows ? r : c, j = rows ? c : r;
      out.data[static_cast<size_t>(r * out.cols + c)] =
          t.dtype == DType::bf16 ? static_cast<double>(static_cast<float>(t.row<bf16>(i)[j]))
                                 : static_cast<double>(t.row<float>(i)[j]);
    }
  }
  return out;
}

/// What the operand is after `spec`: the tensor itself, or its codes, decoded with every scale as the
/// epilogue applies them: code * block scale, times the outer multiplier.
Values operand(const QuantSpec& spec, const TensorView& t, Orientation along, const Noise& noise = {}) {
  if (!spec.quantized()) return values_of(t, along);
  const int64_t rows = along == Orientation::rows ? t.rows : t.cols,
                cols = spec.stored_cols(along == Orientation::rows ? t.cols : t.rows);
  const Buffer memory(QTensor::bytes(spec, rows, cols));
  const QTensor q = QTensor::place(spec, rows, cols, memory.data());
  ref::quantize({t, along, q, noise});
  Values out(rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      out.data[static_cast<size_t>(r * cols + c)] =
          static_cast<double>(ref::decode_element(q, r, c)) * static_cast<double>(q.outer_of(r));
    }
  }
  return out;
}

/// The decoded forward codes as dequantized operands are: in the convention's order, rounded to BF16.
std::vector<bf16> dequantized(const QuantSpec& spec, const TensorView& t) {
  const Buffer memory(QTensor::bytes(spec, t.rows, t.cols));
  const QTensor q = QTensor::place(spec, t.rows, t.cols, memory.data());
  ref::quantize({t, Orientation::rows, q});
  std::vector<bf16> out(static_cast<size_t>(t.size()));
  ref::dequantize({q, {out.data(), t.rows, t.cols}});
  return out;
}

/// `got` against a b^T: FP32 summation of `depth` terms plus the epilogue, and one rounding to the output.
void expect_product(const std::string& what, const TensorView& got, const Values& a, const Values& b) {
  ASSERT_EQ(a.cols, b.cols) << what;
  const double per_step = 0x1p-24 * static_cast<double>(a.cols + 4);
  const double rounding = got.dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
  const Values y = values_of(got, Orientation::rows);
  for (int64_t m = 0; m < a.rows; ++m) {
    for (int64_t n = 0; n < b.rows; ++n) {
      double exact = 0, magnitude = 0;
      for (int64_t k = 0; k < a.cols; ++k) {
        const double term =
            a.data[static_cast<size_t>(m * a.cols + k)] * b.data[static_cast<size_t>(n * b.cols + k)];
        exact += term;
        magnitude += std::abs(term);
      }
      ASSERT_NEAR(y.data[static_cast<size_t>(m * b.rows + n)], exact,
                  per_step * magnitude + rounding * std::abs(exact))
          << what << "[" << m << "," << n << "]";
    }
  }
}

/// Largest difference relative to the largest value: how far quantization moved the product's operand.
double distance(const Values& a, const Values& b) {
  if (a.data.size() != b.data.size()) return 1.0;  // rotated, with whole groups of rows
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    difference = std::max(difference, std::abs(a.data[i] - b.data[i]));
    largest = std::max(largest, std::abs(b.data[i]));
  }
  return difference / largest;
}

/// x [37, 48], w [64, 48], dy [37, 64]: 37 rows are one block of 32 and a ragged one of 5.
struct Tensors {
  static constexpr int64_t kRows = 37, kN = 64, kK = 48;
  std::vector<bf16> x, dy, w;
  std::vector<float> w32;

  Tensors() {
    const auto fill = [](std::vector<bf16>& t, int64_t rows, int64_t cols, uint64_t stream) {
      for (int64_t i = 0; i < rows * cols; ++i) {
        // Rows and columns of very different magnitude: a wrong scale or a wrong axis cannot hide.
        const double scale = std::exp2(6 * uniform(stream + 1, static_cast<uint64_t>(i / cols)) +
                                       3 * uniform(stream + 2, static_cast<uint64_t>(i % cols)));
        t.push_back(bf16(static_cast<float>(scale * uniform(stream, static_cast<uint64_t>(i)))));
      }
    };
    fill(x, kRows, kK, 41);
    fill(dy, kRows, kN, 51);
    fill(w, kN, kK, 61);
    for (const bf16 v : w) w32.push_back(static_cast<float>(v) * 1.001f);  // masters are no BF16 values
  }
};

class Quantized : public testing::TestWithParam<std::string> {};
std::vector<std::string> all_recipes() {
  std::vector<std::string> names;
  for (const RecipeSpec& row : recipes()) names.emplace_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Recipe, Quantized, testing::ValuesIn(all_recipes()),
                         [](const auto& recipe) { return recipe.param; });

/// One Linear on one table with everything that it reads and writes.
struct LinearRun {
  static constexpr int64_t kRows = Tensors::kRows, kN = Tensors::kN, kK = Tensors::kK;
  static constexpr uint64_t kNoise = 0x5EED;
  Linear linear;
  ThreadPool pool{2};
  Buffer scratch, memory;
  std::vector<bf16> y = std::vector<bf16>(kRows * kN), dx = std::vector<bf16>(kRows * kK);
  std::vector<float> dw;

  LinearRun(const std::string& recipe, const OpTable& table, Tensors& t, float initial_dw = 0.0f)
      : linear(resolved(recipe, kN, kK), DType::bf16, table, Policy{Policy::Kind::fastest, {}}),
        scratch(linear.scratch(kRows, 2)),
        memory(linear.backward_bytes(kRows)),
        dw(kN * kK, initial_dw) {
    const QLinearParams& p = linear.params();
    const Context ctx{&table, &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}, kNoise};
    const TensorView x(t.x.data(), kRows, kK), dy(t.dy.data(), kRows, kN), w16(t.w.data(), kN, kK);
    const Buffer qx(QTensor::bytes(p.fprop.a, kRows, kK)), qw(QTensor::bytes(p.fprop.b, kN, kK));
    const Buffer qwt(QTensor::bytes(p.dgrad.b, kK, kN));
    std::vector<bf16> decoded(kN * kK);
    LinearWeights w;
    LinearSaved saved;
    w.dense = p.fprop.b.format == FormatId::fp32 ? TensorView(t.w32.data(), kN, kK) : w16;
    if (linear.needs().quantized_x) saved.xq = QTensor::place(p.fprop.a, kRows, kK, qx.data());
    if (linear.needs().quantized_w) {
      w.fprop = QTensor::place(p.fprop.b, kN, kK, qw.data());
      ops::quantize(ctx, {w16, Orientation::rows, w.fprop});
    }
    if (linear.needs().dgrad_codes) {
      w.dgrad = QTensor::place(p.dgrad.b, kK, kN, qwt.data());
      ops::quantize(ctx, {w16, Orientation::columns, w.dgrad});
    }
    if (linear.needs().dequantized_w) {
      w.dequantized = TensorView(decoded.data(), kN, kK);
      ops::dequantize(ctx, {w.fprop, w.dequantized});
    }
    linear.forward(ctx, x, w, {y.data(), kRows, kN}, saved);
    if (!linear.needs().saved_x) saved.x = {};  // a backward on the codes must not look
    Arena temp(memory);
    linear.backward(ctx, temp, dy, saved, w, {dx.data(), kRows, kK}, {dw.data(), kN, kK});
  }
};

TEST_P(Quantized, ProductsAreThoseOfTheOperandsThatTheRecipeNames) {
  Tensors t;
  constexpr int64_t kRows = Tensors::kRows, kN = Tensors::kN, kK = Tensors::kK;
  const QLinearParams& p = get_recipe(GetParam()).params;
  const TensorView x(t.x.data(), kRows, kK), dy(t.dy.data(), kRows, kN);
  const TensorView w =
      p.fprop.b.format == FormatId::fp32 ? TensorView(t.w32.data(), kN, kK) : TensorView(t.w.data(), kN, kK);
  std::vector<bf16> x_decoded, w_decoded;
  const auto source = [](const MatmulSpec& spec, const QuantSpec& forward, const TensorView& original,
                         std::vector<bf16>& memory) {
    if (spec.source == OperandSource::saved_original) return original;
    memory = dequantized(forward, original);
    return TensorView(memory.data(), original.rows, original.cols);
  };
  const TensorView dgrad_w = source(p.dgrad, p.fprop.b, w, w_decoded),
                   wgrad_x = source(p.wgrad, p.fprop.a, x, x_decoded);
  const Values fa = operand(p.fprop.a, x, Orientation::rows), fb = operand(p.fprop.b, w, Orientation::rows);
  Context noise_context;
  noise_context.noise = LinearRun::kNoise;
  const Linear module(resolved(GetParam(), kN, kK), DType::bf16, ref::table(), {Policy::Kind::fastest, {}});
  const auto noise = [&](LinearPass pass) { return module.noise(noise_context, pass); };
  const Values da = operand(p.dgrad.a, dy, Orientation::rows, noise(LinearPass::dgrad)),
               db = operand(p.dgrad.b, dgrad_w, Orientation::columns);
  const Values wa = operand(p.wgrad.a, dy, Orientation::columns, noise(LinearPass::wgrad)),
               wb = operand(p.wgrad.b, wgrad_x, Orientation::columns);
  for (const OpTable* table : test_support::cpu_tables()) {
    LinearRun run(GetParam(), *table, t);
    const std::string name(table->name);
    expect_product(name + " y", {run.y.data(), kRows, kN}, fa, fb);
    expect_product(name + " dx", {run.dx.data(), kRows, kK}, da, db);
    expect_product(name + " dw", {run.dw.data(), kN, kK}, wa, wb);
  }
  // The operands are quantized where the recipe says so, and only there.
  const Values dyt = values_of(dy, Orientation::columns);
  EXPECT_EQ(distance(fa, values_of(x, Orientation::rows)) > 1e-3, p.fprop.a.quantized());
  EXPECT_EQ(distance(da, values_of(dy, Orientation::rows)) > 1e-3, p.dgrad.a.quantized());
  EXPECT_EQ(distance(wa, dyt) > 1e-3, p.wgrad.a.quantized());
}

/// The random bits of a product belong to the pass, the module and the seed: another seed rounds differently,
/// and the mean over seeds is the value itself.
TEST(QuantizedBlocks, StochasticRoundingIsUnbiasedAndRepeats) {
  Tensors t;
  const TensorView dy(t.dy.data(), Tensors::kRows, Tensors::kN);
  const QuantSpec spec = get_recipe("nvfp4_te").params.dgrad.a;
  const Values exact = values_of(dy, Orientation::rows);
  Values mean(exact.rows, exact.cols);
  constexpr int kSeeds = 400;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Noise noise{static_cast<uint64_t>(seed), 7};
    const Values once = operand(spec, dy, Orientation::rows, noise);
    if (seed == 0) {
      EXPECT_EQ(operand(spec, dy, Orientation::rows, noise).data, once.data);
      EXPECT_NE(operand(spec, dy, Orientation::rows, {0, 8}).data, once.data);
      EXPECT_NE(operand(spec, dy, Orientation::rows, {1, 7}).data, once.data);
    }
    for (size_t i = 0; i < mean.data.size(); ++i) mean.data[i] += once.data[i] / kSeeds;
  }
  QuantSpec nearest = spec;
  nearest.rounding = Rounding::nearest;
  const Values once = operand(nearest, dy, Orientation::rows);
  // The relative L2 of the mean is that of nearest rounding over sqrt(kSeeds), within a factor.
  double mean_error = 0, nearest_error = 0;
  for (size_t i = 0; i < mean.data.size(); ++i) {
    mean_error += std::pow(mean.data[i] - exact.data[i], 2);
    nearest_error += std::pow(once.data[i] - exact.data[i], 2);
  }
  EXPECT_LT(std::sqrt(mean_error), 0.2 * std::sqrt(nearest_error));
}

/// A rotation of both operands leaves their product alone: H H^T = 1.
TEST(QuantizedBlocks, RotatedProductsApproximateTheSameGradient) {
  Tensors t;
  constexpr int64_t kN = Tensors::kN, kK = Tensors::kK;
  LinearRun rotated("nvfp4_te", ref::table(), t), exact("bf16", ref::table(), t);
  double difference = 0, size = 0;
  for (size_t i = 0; i < kN * kK; ++i) {
    difference += std::pow(static_cast<double>(rotated.dw[i] - exact.dw[i]), 2);
    size += std::pow(static_cast<double>(exact.dw[i]), 2);
  }
  EXPECT_LT(std::sqrt(difference / size), 0.35) << "four-bit operands, the same gradient";
}

/// MXFP8 blocks of wgrad run along the rows of the batch, those of dgrad along N.
TEST(QuantizedBlocks, LieAlongTheContractedDimension) {
  Tensors t;
  const TensorView dy(t.dy.data(), Tensors::kRows, Tensors::kN);
  const QuantSpec mxfp8 = get_recipe("nvfp4_per_token").params.wgrad.a;
  ASSERT_EQ(mxfp8.format, FormatId::mxfp8);
  const Values along_m = operand(mxfp8, dy, Orientation::columns);
  const Values along_n = operand(mxfp8, dy, Orientation::rows);
  double largest = 0;
  for (int64_t m = 0; m < along_n.rows; ++m) {
    for (int64_t n = 0; n < along_n.cols; ++n) {
      largest = std::max(largest, std::abs(along_n.data[static_cast<size_t>(m * along_n.cols + n)] -
                                           along_m.data[static_cast<size_t>(n * along_m.cols + m)]));
    }
  }
  EXPECT_GT(largest, 0.0) << "the two axes must be told apart by these data";
}

/// The product is added to what dw holds, in one FP32 addition.
TEST_P(Quantized, MainGradientsAccumulate) {
  Tensors t;
  for (const OpTable* table : test_support::cpu_tables()) {
    const LinearRun fresh(GetParam(), *table, t), added(GetParam(), *table, t, 1.0f);
    for (size_t i = 0; i < fresh.dw.size(); ++i)
      ASSERT_EQ(added.dw[i], fresh.dw[i] + 1.0f) << table->name << i;
  }
}

}  // namespace
}  // namespace minite::gradcheck
