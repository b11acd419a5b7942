#include "modules/linear.h"

#include <algorithm>

#include "core/fail.h"

namespace minite {
namespace {

/// Format of a dense operand as it is stored.
FormatId stored_as(DType dtype) { return dtype == DType::bf16 ? FormatId::bf16 : FormatId::fp32; }

FormatId operand_format(const QuantSpec& spec, DType stored) {
  return spec.quantized() ? spec.format : stored_as(stored);
}

DType accumulator(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }

/// dtype of the dense weight that `spec` reads.
DType weight_dtype(const QuantSpec& spec, DType compute) {
  return spec.format == FormatId::fp32 && compute == DType::bf16 ? DType::f32 : compute;
}

void check_policy(const ResolvedLinear& resolved, const Policy& policy) {
  if (policy.kind != Policy::Kind::batch_invariant || resolved.params.row_local()) return;
  fail(ErrorCode::unsupported,
       "{}: recipe {} scales activations over the whole tensor ({}), so a token's result depends on its "
       "batch; policy "
       "batch_invariant refuses it. Use a recipe with row scales or --sampler-policy fastest",
       resolved.module.name, resolved.recipe, to_string(resolved.params.fprop.a));
}

}  // namespace

LinearNeeds::LinearNeeds(const QLinearParams& p)
    : quantized_x(p.fprop.a.quantized()),
      quantized_w(p.fprop.b.quantized()),
      saved_x(!(quantized_x && p.wgrad.source == OperandSource::dequantized)),
      dgrad_codes(p.dgrad.b.quantized()),
      dequantized_w(quantized_w && p.dgrad.source == OperandSource::dequantized) {}

Linear::Linear(const ResolvedLinear& resolved, DType compute, const OpTable& table, const Policy& policy)
    : resolved_(resolved), needs_(resolved.params), compute_(compute), table_(&table) {
  resolved_.params.validate();
  check_policy(resolved_, policy);
  const QLinearParams& p = resolved_.params;
  fprop_ = plan_gemm(table,
                     {operand_format(p.fprop.a, compute),
                      operand_format(p.fprop.b, weight_dtype(p.fprop.b, compute)), compute, n(), k()},
                     policy, resolved_.module.name);
  dgrad_ = plan_gemm(table,
                     {operand_format(p.dgrad.a, compute),
                      operand_format(p.dgrad.b, weight_dtype(p.dgrad.b, compute)), compute, k(), n()},
                     Policy{Policy::Kind::fastest, {}}, resolved_.module.name + " dgrad");
}

GemmPlan Linear::wgrad_plan(int64_t rows) const {
  const QLinearParams& p = params();
  return plan_gemm(*table_,
                   {operand_format(p.wgrad.a, compute_), operand_format(p.wgrad.b, compute_),
                    accumulator(compute_), k(), p.wgrad.a.stored_cols(rows)},
                   Policy{Policy::Kind::fastest, {}}, resolved_.module.name + " wgrad");
}

Noise linear_noise(const std::string& name, LinearPass pass, uint64_t seed) {
  // FNV-1a of the module's name; below it a bit for wgrad, then the group.
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  const uint64_t wgrad = pass == LinearPass::wgrad ? 1 : 0;
  return {seed, (hash << 32) | (wgrad << 31)};
}

void Linear::forward(const Context& ctx, const TensorView& x, const LinearWeights& w, const TensorView& y,
                     LinearSaved& saved) const {
  if (needs_.quantized_x) ops::quantize(ctx, {x, Orientation::rows, saved.xq, {}});
  forward_prequantized(ctx, x, w, y, saved);
}

void Linear::forward_prequantized(const Context& ctx, const TensorView& x, const LinearWeights& w,
                                  const TensorView& y, LinearSaved& saved) const {
  const Operand a = needs_.quantized_x ? Operand::of(saved.xq) : Operand::of(x);
  const Operand b = needs_.quantized_w ? Operand::of(w.fprop) : Operand::of(w.dense);
  ops::gemm(ctx, fprop_, {a, b, w.bias, y, Output::overwrite});
  saved.x = x;
  observe_forward(ctx, saved, {&w, 1}, y);
}

Tap Linear::tap(Point point, int64_t expert) const {
  const LinearModule& m = resolved_.module;
  std::string_view name = m.name;
  if (m.layer >= 0) name.remove_prefix(name.find('.', name.find('.') + 1) + 1);  // "layers.3."
  return {m.layer, name, point, expert};
}

void Linear::observe_forward(const Context& ctx, const LinearSaved& saved, std::span<const LinearWeights> w,
                             const TensorView& y) const {
  if (ctx.probe == nullptr) return;
  ctx.probe->value(tap(Point::input), saved.x);
  if (needs_.quantized_x) ctx.probe->codes(tap(Point::input), saved.xq);
  for (size_t i = 0; i < w.size(); ++i) {
    const Tap at = tap(Point::weight, w.size() == 1 ? -1 : static_cast<int64_t>(i));
    ctx.probe->value(at, w[i].dense);
    if (needs_.quantized_w) ctx.probe->codes(at, w[i].fprop);
  }
  ctx.probe->value(tap(Point::output), y);
}

void Linear::dgrad(const Context& ctx, Arena& temp, const TensorView& dy, const LinearWeights& w,
                   const TensorView& dx) const {
  const QLinearParams& p = params();
  Operand a = Operand::of(dy);
  if (p.dgrad.a.quantized()) {
    const QTensor q = temp.take_qtensor(p.dgrad.a, dy.rows, n());
    ops::quantize(ctx, {dy, Orientation::rows, q, noise(ctx, LinearPass::dgrad)});
    observe_gradient(ctx, Point::grad_output, q);
    a = Operand::of(q);
  }
  if (needs_.dgrad_codes) observe_columns(ctx, Point::weight, w.dense, w.dgrad);
  // w is [N,K] and N is contracted: a dense weight is read by columns, codes are those of w^T.
  const Operand b = needs_.dgrad_codes
                        ? Operand::of(w.dgrad)
                        : Operand::of(needs_.dequantized_w ? w.dequantized : w.dense, Orientation::columns);
  ops::gemm(ctx, dgrad_, {a, b, {}, dx, Output::overwrite});
}

void Linear::wgrad(const Context& ctx, Arena& temp, const TensorView& dy, const LinearSaved& saved,
                   const TensorView& dw) const {
  const QLinearParams& p = params();
  const int64_t rows = dy.rows;
  Operand a = Operand::of(dy, Orientation::columns);
  if (p.wgrad.a.quantized()) {
    const QTensor q = temp.take_qtensor(p.wgrad.a, n(), p.wgrad.a.stored_cols(rows));
    ops::quantize(ctx, {dy, Orientation::columns, q, noise(ctx, LinearPass::wgrad)});
    observe_columns(ctx, Point::grad_output, dy, q);
    a = Operand::of(q);
  }
  TensorView x = saved.x;
  if (!needs_.saved_x) {
    x = temp.take_tensor(compute_, rows, k());
    ops::dequantize(ctx, {saved.xq, x});
  }
  Operand b = Operand::of(x, Orientation::columns);
  if (p.wgrad.b.quantized()) {
    const QTensor q = temp.take_qtensor(p.wgrad.b, k(), p.wgrad.b.stored_cols(rows));
    ops::quantize(ctx, {x, Orientation::columns, q, {}});
    observe_columns(ctx, Point::input, x, q);
    b = Operand::of(q);
  }
  ops::gemm(ctx, wgrad_plan(rows), {a, b, {}, dw, Output::accumulate});
}

void Linear::backward(const Context& ctx, Arena& temp, const TensorView& dy, const LinearSaved& saved,
                      const LinearWeights& w, const TensorView& dx, const TensorView& dw,
                      const TensorView& dbias) const {
  require(w.bias.empty() == dbias.empty(), "{}: a bias and the place of its gradient belong together",
          resolved_.module.name);
  observe_gradient(ctx, Point::grad_output, dy);
  if (!dbias.empty()) ops::bias_backward(ctx, {dy, dbias});
  const int64_t mark = temp.mark();
  wgrad(ctx, temp, dy, saved, dw);
  temp.rewind(mark);
  dgrad(ctx, temp, dy, w, dx);
  temp.rewind(mark);
  observe_gradient(ctx, Point::grad_input, dx);
}

int64_t Linear::backward_bytes(int64_t rows) const {
  const QLinearParams& p = params();
  const auto codes = [](const QuantSpec& spec, int64_t r, int64_t c) {
    return spec.quantized() ? align_up(QTensor::bytes(spec, r, spec.stored_cols(c))) : int64_t{0};
  };
  const int64_t dense = needs_.saved_x ? 0 : align_up(rows * k() * dtype_size(compute_));
  return std::max(codes(p.dgrad.a, rows, n()),
                  codes(p.wgrad.a, n(), rows) + codes(p.wgrad.b, k(), rows) + dense);
}

int64_t Linear::scratch(int64_t rows, int threads) const {
  return std::max(
      {fprop_.scratch(rows, threads), dgrad_.scratch(rows, threads), wgrad_plan(rows).scratch(n(), threads)});
}

std::vector<std::string> Linear::plans() const {
  return {resolved_.module.name + " fprop: " + to_string(fprop_),
          resolved_.module.name + " dgrad: " + to_string(dgrad_)};
}

void LayerNormLinear::forward(const Context& ctx, const TensorView& x, const NormParams& norm, float eps,
                              const LinearWeights& w, const TensorView& normed, const TensorView& y,
                              Saved& saved) const {
  saved.x = x;
  const int layer = linear_.resolved().module.layer;
  if (ctx.probe != nullptr) ctx.probe->value({layer, norm_name_, Point::input}, x);
  const NormArgs args{x, norm.weight, eps, 1, normed, saved.rstd, norm_, norm.bias, saved.mean};
  if (linear_.needs().quantized_x) {
    ops::norm_quantize(ctx, {args, saved.linear.xq});
  } else {
    ops::norm(ctx, args);
  }
  ctx.observe(layer, norm_name_, normed);
  linear_.forward_prequantized(ctx, normed, w, y, saved.linear);
}

void LayerNormLinear::backward(const Context& ctx, Arena& temp, const TensorView& dy, const Saved& saved,
                               const NormParams& norm, const LinearWeights& w, const TensorView& dnormed,
                               const TensorView& residual, const TensorView& dx, const TensorView& dw,
                               const NormParams& dnorm, const TensorView& dbias) const {
  require(norm.bias.empty() == dnorm.bias.empty(),
          "{}: a norm's bias and the place of its gradient belong together", linear_.resolved().module.name);
  linear_.backward(ctx, temp, dy, saved.linear, w, dnormed, dw, dbias);
  ops::norm_backward(ctx, {dnormed, saved.x, norm.weight, saved.rstd, 1, residual, dx, dnorm.weight, norm_,
                           saved.mean, dnorm.bias});
}

}  // namespace minite
