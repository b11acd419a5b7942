// LayerNormLinear with either norm: in FP64 against central differences, and in every recipe, on every
// backend, against the ops that it is made of, bit for bit.
#include "gradcheck/differences.h"
#include "support/norms.h"
#include "support/resolved.h"
#include "support/tiny_model.h"

namespace minite::gradcheck {
namespace {

using test_support::bytes_of;
using test_support::kNorms;
using test_support::NormCase;

ResolvedLinear layer(const std::string& recipe, int64_t n, int64_t k) {
  return test_support::resolved_linear("layer", recipe, n, k);
}

TEST(NormLinearFp64, BackwardIsTheGradientOfForward) {
  Reference ref;
  constexpr int64_t kRows = 4, kN = 5, kK = 19;
  for (const NormCase& norm : kNorms) {
    const LayerNormLinear module(layer("fp32", kN, kK), DType::f64, ref::table(), Policy{}, norm.spec);
    Matrix x = Matrix::random(kRows, kK, 34), g = Matrix::random(1, kK, 35), w = Matrix::random(kN, kK, 36);
    Matrix c = Matrix::random(kRows, kN, 37), residual = Matrix::random(kRows, kK, 38);
    Matrix norm_bias = Matrix::random(1, kK, 39), bias = Matrix::random(1, kN, 40);
    Matrix normed(kRows, kK), y(kRows, kN), rstd(kRows, 1), mean(kRows, 1), dnormed(kRows, kK), dx(kRows, kK),
        dw(kN, kK), dg(1, kK), dnorm_bias(1, kK), dbias(1, kN);
    LinearWeights weights;
    weights.dense = w.view();
    weights.bias = bias.view();
    LayerNormLinear::Saved saved;
    saved.rstd = rstd.view();
    if (norm.spec.kind == NormKind::layernorm) saved.mean = mean.view();
    const NormParams params(g.view(), norm.bias ? norm_bias.view() : TensorView{});
    const NormParams grads(dg.view(), norm.bias ? dnorm_bias.view() : TensorView{});
    const Loss loss = [&] {
      module.forward(ref.context(), x.view(), params, 1e-2f, weights, normed.view(), y.view(), saved);
      return y.dot(c) + x.dot(residual);  // the residual's own loss: dx includes it
    };
    (void)loss();
    for (Matrix* m : {&dw, &dg, &dnorm_bias, &dbias}) std::fill(m->data.begin(), m->data.end(), 0.5);
    Arena temp(nullptr, 0);
    module.backward(ref.context(), temp, c.view(), saved, params, weights, dnormed.view(), residual.view(),
                    dx.view(), dw.view(), grads, dbias.view());
    for (Matrix* m : {&dw, &dg, &dnorm_bias, &dbias}) {
      for (double& e : m->data) e -= 0.5;  // gradients accumulate
    }
    const std::string name(norm.name);
    check_elements(name + " dx", x.data, dx.data, loss);
    check_elements(name + " dw", w.data, dw.data, loss);
    check_elements(name + " dbias", bias.data, dbias.data, loss);
    check_elements(name + " dweight of the norm", g.data, dg.data, loss);
    if (norm.bias) check_elements(name + " dbias of the norm", norm_bias.data, dnorm_bias.data, loss);
  }
}

/// What one layer reads and writes in BF16, and the two ways to run it.
struct LayerRun {
  static constexpr int64_t kRows = 37, kN = 64, kK = 96;
  const NormCase& norm;
  LayerNormLinear module;
  Linear linear;
  ThreadPool pool{2};
  Buffer scratch, temp, codes_x, codes_w, codes_wt;
  std::vector<bf16> x, g, norm_bias, w16, dy, residual, decoded;
  std::vector<float> w32, bias, rstd, mean, dw, dg, dnorm_bias, dbias;
  std::vector<bf16> normed, y, dnormed, dx;
  LinearWeights weights;

  LayerRun(const NormCase& which, const std::string& recipe, const OpTable& table)
      : norm(which),
        module(layer(recipe, kN, kK), DType::bf16, table, Policy{Policy::Kind::fastest, {}}, which.spec),
        linear(layer(recipe, kN, kK), DType::bf16, table, Policy{Policy::Kind::fastest, {}}),
        scratch(linear.scratch(kRows, 2)),
        temp(linear.backward_bytes(kRows)),
        context{&table, &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}} {
    fill(x, kRows * kK, 1, 2.0f), fill(g, kK, 2, 1.0f), fill(norm_bias, kK, 3, 0.5f),
        fill(w16, kN * kK, 4, 0.3f);
    fill(dy, kRows * kN, 5, 1.0f), fill(residual, kRows * kK, 6, 1.0f);
    for (const bf16 e : w16) w32.push_back(static_cast<float>(e) * 1.001f);  // masters are no BF16 values
    for (int64_t n = 0; n < kN; ++n) bias.push_back(static_cast<float>(uniform(7, static_cast<uint64_t>(n))));
    normed.resize(kRows * kK), y.resize(kRows * kN), dnormed.resize(kRows * kK), dx.resize(kRows * kK);
    rstd.resize(kRows), mean.resize(kRows), dw.assign(kN * kK, 0.25f), dg.assign(kK, 0.25f);
    dnorm_bias.assign(kK, 0.25f), dbias.assign(kN, 0.25f);
    make_weights();
  }

  static void fill(std::vector<bf16>& to, int64_t count, uint64_t stream, float scale) {
    for (int64_t i = 0; i < count; ++i) {
      to.push_back(bf16(scale * static_cast<float>(uniform(stream, static_cast<uint64_t>(i)))));
    }
  }
  void make_weights() {
    const QLinearParams& p = linear.params();
    const TensorView w(w16.data(), kN, kK);
    weights.dense = p.fprop.b.format == FormatId::fp32 ? TensorView(w32.data(), kN, kK) : w;
    weights.bias = {bias.data(), 1, kN};
    if (linear.needs().quantized_x) codes_x = Buffer(QTensor::bytes(p.fprop.a, kRows, kK));
    if (linear.needs().quantized_w) {
      codes_w = Buffer(QTensor::bytes(p.fprop.b, kN, kK));
      weights.fprop = QTensor::place(p.fprop.b, kN, kK, codes_w.data());
      ops::quantize(context, {w, Orientation::rows, weights.fprop});
    }
    if (linear.needs().dgrad_codes) {
      codes_wt = Buffer(QTensor::bytes(p.dgrad.b, kK, kN));
      weights.dgrad = QTensor::place(p.dgrad.b, kK, kN, codes_wt.data());
      ops::quantize(context, {w, Orientation::columns, weights.dgrad});
    }
    if (linear.needs().dequantized_w) {
      decoded.resize(kN * kK);
      weights.dequantized = {decoded.data(), kN, kK};
      ops::dequantize(context, {weights.fprop, weights.dequantized});
    }
  }
  template <class T>
  static TensorView view(std::vector<T>& m, int64_t rows) {
    return {m.data(), rows, static_cast<int64_t>(m.size()) / rows};
  }
  [[nodiscard]] LayerNormLinear::Saved saved() {
    LayerNormLinear::Saved s;
    s.rstd = view(rstd, kRows);
    if (norm.spec.kind == NormKind::layernorm) s.mean = view(mean, kRows);
    if (linear.needs().quantized_x)
      s.linear.xq = QTensor::place(linear.params().fprop.a, kRows, kK, codes_x.data());
    return s;
  }

  /// The module.
  void run_module() {
    LayerNormLinear::Saved s = saved();
    const NormParams params(view(g, 1), norm.bias ? view(norm_bias, 1) : TensorView{});
    const NormParams grads(view(dg, 1), norm.bias ? view(dnorm_bias, 1) : TensorView{});
    module.forward(context, view(x, kRows), params, 1e-5f, weights, view(normed, kRows), view(y, kRows), s);
    Arena arena(temp);
    module.backward(context, arena, view(dy, kRows), s, params, weights, view(dnormed, kRows),
                    view(residual, kRows), view(dx, kRows), view(dw, kN), grads, view(dbias, 1));
  }
  /// One op after the other: norm, Linear; Linear's gradient, the bias's, the norm's.
  void run_ops() {
    LayerNormLinear::Saved s = saved();
    const TensorView b = norm.bias ? view(norm_bias, 1) : TensorView{};
    ops::norm(context,
              {view(x, kRows), view(g, 1), 1e-5f, 1, view(normed, kRows), s.rstd, norm.spec, b, s.mean});
    linear.forward(context, view(normed, kRows), weights, view(y, kRows), s.linear);
    Arena arena(temp);
    LinearWeights plain = weights;  // the products have no part in the bias
    plain.bias = {};
    linear.backward(context, arena, view(dy, kRows), s.linear, plain, view(dnormed, kRows), view(dw, kN));
    for (int64_t n = 0; n < kN; ++n) {
      for (int64_t r = 0; r < kRows; ++r)
        dbias[static_cast<size_t>(n)] += dy[static_cast<size_t>(r * kN + n)];
    }
    ops::norm_backward(context, {view(dnormed, kRows), view(x, kRows), view(g, 1), s.rstd, 1,
                                 view(residual, kRows), view(dx, kRows), view(dg, 1), norm.spec, s.mean,
                                 norm.bias ? view(dnorm_bias, 1) : TensorView{}});
  }
  /// Everything that was written.
  std::vector<std::byte> written() {
    std::vector<std::byte> all;
    for (const TensorView& t :
         {view(normed, kRows), view(y, kRows), view(rstd, kRows), view(mean, kRows), view(dnormed, kRows),
          view(dx, kRows), view(dw, kN), view(dg, 1), view(dnorm_bias, 1), view(dbias, 1)}) {
      const auto bytes = bytes_of(t);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  Context context;
};

class NormLinear : public testing::TestWithParam<std::string> {};
std::vector<std::string> all_recipes() {
  std::vector<std::string> names;
  for (const RecipeSpec& row : recipes()) names.emplace_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Recipe, NormLinear, testing::ValuesIn(all_recipes()),
                         [](const auto& recipe) { return recipe.param; });

TEST_P(NormLinear, IsTheCompositionOfItsOps) {
  std::vector<std::byte> of_rmsnorm;
  for (const NormCase& norm : kNorms) {
    std::vector<std::byte> expected;
    for (const OpTable* table : test_support::cpu_tables()) {
      LayerRun module(norm, GetParam(), *table), ops(norm, GetParam(), *table);
      module.run_module();
      ops.run_ops();
      const auto bytes = module.written();
      EXPECT_TRUE(bytes == ops.written()) << norm.name << " on " << table->name;
      if (expected.empty()) expected = bytes;
      EXPECT_TRUE(bytes == expected) << norm.name << " on " << table->name << " against ref";
    }
    if (of_rmsnorm.empty()) {
      of_rmsnorm = expected;
    } else {
      EXPECT_FALSE(expected == of_rmsnorm) << norm.name << " must not be RMSNorm";
    }
  }
}

/// bias rows of y are y without a bias, plus the bias before the one rounding.
TEST(LinearBias, IsAddedBeforeTheRounding) {
  for (const OpTable* table : test_support::cpu_tables()) {
    LayerRun run(kNorms[0], "bf16", *table);
    LinearSaved saved;
    const TensorView x = LayerRun::view(run.x, LayerRun::kRows);
    std::vector<float> wide(LayerRun::kRows * LayerRun::kN);
    const GemmPlan plan = plan_gemm(
        *table, {FormatId::bf16, FormatId::bf16, DType::f32, LayerRun::kN, LayerRun::kK}, Policy{}, "wide");
    ops::gemm(run.context, plan,
              {Operand::of(x),
               Operand::of(run.weights.dense),
               {},
               LayerRun::view(wide, LayerRun::kRows),
               Output::overwrite});
    run.linear.forward(run.context, x, run.weights, LayerRun::view(run.y, LayerRun::kRows), saved);
    for (size_t i = 0; i < wide.size(); ++i) {
      const float sum = wide[i] + run.bias[i % LayerRun::kN];
      ASSERT_EQ(run.y[i].bits, bf16(sum).bits) << table->name << " " << i;
    }
  }
}

}  // namespace
}  // namespace minite::gradcheck
