#include "modules/grouped_linear.h"

#include <algorithm>

#include "core/fail.h"

namespace minite {
namespace {

/// One operand a group, made by `of(weights)`.
template <class Of>
std::vector<Operand> operands(std::span<const LinearWeights> w, const Of& of) {
  std::vector<Operand> all;
  all.reserve(w.size());
  for (const LinearWeights& each : w) {
    require(
        each.bias.empty(),
        "GroupedLinear takes no bias, but an expert's weights come with one; add it to y, or use a Linear an "
        "expert");
    all.push_back(of(each));
  }
  return all;
}

int64_t longest(const Groups& groups) {
  int64_t rows = 0;
  for (int64_t g = 0; g < groups.count(); ++g) rows = std::max(rows, groups.rows(g));
  return rows;
}

}  // namespace

void GroupedLinear::forward(const Context& ctx, const TensorView& x, const Groups& groups,
                            std::span<const LinearWeights> w, const TensorView& y, LinearSaved& saved) const {
  if (each_.needs().quantized_x) ops::quantize(ctx, {x, Orientation::rows, saved.xq, {}});
  forward_prequantized(ctx, x, groups, w, y, saved);
}

void GroupedLinear::forward_prequantized(const Context& ctx, const TensorView& x, const Groups& groups,
                                         std::span<const LinearWeights> w, const TensorView& y,
                                         LinearSaved& saved) const {
  const LinearNeeds& needs = each_.needs();
  const auto b = operands(w, [&](const LinearWeights& each) {
    return needs.quantized_w ? Operand::of(each.fprop) : Operand::of(each.dense);
  });
  const Operand a = needs.quantized_x ? Operand::of(saved.xq) : Operand::of(x);
  ops::group_gemm(ctx, each_.fprop_plan(), {a, groups, b, y});
  saved.x = x;
  each_.observe_forward(ctx, saved, w, y);
}

void GroupedLinear::dgrad(const Context& ctx, Arena& temp, const TensorView& dy, const Groups& groups,
                          std::span<const LinearWeights> w, const TensorView& dx) const {
  const LinearNeeds& needs = each_.needs();
  const QuantSpec& spec = each_.params().dgrad.a;
  Operand a = Operand::of(dy);
  if (spec.quantized()) {
    const QTensor q = temp.take_qtensor(spec, dy.rows, each_.n());
    ops::quantize(ctx, {dy, Orientation::rows, q, each_.noise(ctx, LinearPass::dgrad)});
    each_.observe_gradient(ctx, Point::grad_output, q);
    a = Operand::of(q);
  }
  for (size_t g = 0; needs.dgrad_codes && g < w.size(); ++g)
    each_.observe_columns(ctx, Point::weight, w[g].dense, w[g].dgrad, static_cast<int64_t>(g));
  const auto b = operands(w, [&](const LinearWeights& each) {
    return needs.dgrad_codes
               ? Operand::of(each.dgrad)
               : Operand::of(needs.dequantized_w ? each.dequantized : each.dense, Orientation::columns);
  });
  ops::group_gemm(ctx, each_.dgrad_plan(), {a, groups, b, dx});
}

std::vector<Operand> GroupedLinear::columns(const Context& ctx, Arena& temp, const TensorView& x,
                                            const Groups& groups, const QuantSpec& spec, Point point,
                                            const Noise& noise) const {
  std::vector<Operand> all(static_cast<size_t>(groups.count()));
  std::vector<QTensor> codes(all.size());
  for (int64_t g = 0; g < groups.count(); ++g) {
    const auto i = static_cast<size_t>(g);
    const TensorView part = x.slice_rows(groups.begin(g), groups.rows(g));
    all[i] = Operand::of(part, Orientation::columns);
    if (!spec.quantized() || part.rows == 0) continue;
    codes[i] = temp.take_qtensor(spec, x.cols, spec.stored_cols(part.rows));
    all[i] = Operand::of(codes[i]);
  }
  if (!spec.quantized()) return all;
  ops::group_quantize(ctx, {x, groups, Orientation::columns, codes, noise});
  for (int64_t g = 0; g < groups.count(); ++g) {
    if (groups.rows(g) == 0) continue;
    each_.observe_columns(ctx, point, x.slice_rows(groups.begin(g), groups.rows(g)),
                          codes[static_cast<size_t>(g)], g);
  }
  return all;
}

void GroupedLinear::wgrad(const Context& ctx, Arena& temp, const TensorView& dy, const Groups& groups,
                          const LinearSaved& saved, const TensorView& dw) const {
  const QLinearParams& p = each_.params();
  const auto a =
      columns(ctx, temp, dy, groups, p.wgrad.a, Point::grad_output, each_.noise(ctx, LinearPass::wgrad));
  TensorView x = saved.x;
  if (!each_.needs().saved_x) {
    x = temp.take_tensor(compute_, dy.rows, each_.k());
    ops::dequantize(ctx, {saved.xq, x});
  }
  const auto b = columns(ctx, temp, x, groups, p.wgrad.b, Point::input, {});
  ops::group_wgrad(ctx, each_.wgrad_plan(longest(groups)), {a, b, dw});
}

void GroupedLinear::backward(const Context& ctx, Arena& temp, const TensorView& dy, const Groups& groups,
                             const LinearSaved& saved, std::span<const LinearWeights> w, const TensorView& dx,
                             const TensorView& dw) const {
  each_.observe_gradient(ctx, Point::grad_output, dy);
  const int64_t mark = temp.mark();
  wgrad(ctx, temp, dy, groups, saved, dw);
  temp.rewind(mark);
  dgrad(ctx, temp, dy, groups, w, dx);
  temp.rewind(mark);
  each_.observe_gradient(ctx, Point::grad_input, dx);
}

int64_t GroupedLinear::backward_bytes(int64_t rows) const {
  // A group adds at most a partial block, its outer scales and the rounding of its parts to what all rows in
  // one tensor take.
  const int64_t groups = std::min(num_gemms_, rows);
  const auto codes = [&](const QuantSpec& spec, int64_t r) {
    return spec.quantized()
               ? QTensor::bytes(spec, r, rows) + groups * (QTensor::bytes(spec, r, 16) + 4 * kAlignment)
               : int64_t{0};
  };
  const QLinearParams& p = each_.params();
  const int64_t dense = each_.needs().saved_x ? 0 : align_up(rows * each_.k() * dtype_size(compute_));
  const int64_t dgrad = p.dgrad.a.quantized() ? align_up(QTensor::bytes(p.dgrad.a, rows, each_.n())) : 0;
  return std::max(dgrad, codes(p.wgrad.a, each_.n()) + codes(p.wgrad.b, each_.k()) + dense);
}

}  // namespace minite
