#pragma once
// RMSNorm and LayerNorm and their gradients, by groups of D elements of each row.
//
//   mean = lane_sum(x) / D in LayerNorm, 0 in RMSNorm
//   rstd = 1 / sqrt(lane_sum fma(x - mean, x - mean, .) / D + eps)     xhat = (x - mean) * rstd
//   y    = xhat * w, with a bias fma(xhat, w, b)                       w is 1 + weight when centred on zero
//   g    = dy * w     c = lane_sum fma(g, xhat, .) / D     m = lane_sum(g) / D in LayerNorm, 0 in RMSNorm
//   dx   = rstd * fma(-xhat, c, g - m) (+ residual)        dw = fma(dy, xhat, dw)     db = db + dy
#include "backends/ref/numeric.h"
#include "ops/args.h"

namespace minite::ref {

/// Column i of a norm's weight as it multiplies.
template <class T>
Acc<T> norm_weight(const NormSpec& spec, const TensorView& weight, int64_t i) {
  const Acc<T> w = load(weight.as<const T>()[i]);
  return spec.gamma == Gamma::zero_centered ? w + Acc<T>(1) : w;
}

template <class T>
void norm_group(const NormArgs& args, int64_t r, int64_t g) {
  using A = Acc<T>;
  const int64_t d = args.x.cols / args.groups;
  const T* x = args.x.row<const T>(r) + g * d;
  T* y = args.y.row<T>(r) + g * d;
  A mean = 0;
  if (args.spec.kind == NormKind::layernorm) {
    mean = lane_sum<A>(d, [&](A acc, int64_t i) { return acc + load(x[i]); }) / static_cast<A>(d);
  }
  const A sum =
      lane_sum<A>(d, [&](A acc, int64_t i) { return math::fma(load(x[i]) - mean, load(x[i]) - mean, acc); });
  const A rstd = A(1) / std::sqrt(sum / static_cast<A>(d) + static_cast<A>(args.eps));
  for (int64_t i = 0; i < d; ++i) {
    const A xhat = (load(x[i]) - mean) * rstd, w = norm_weight<T>(args.spec, args.weight, i);
    y[i] =
        static_cast<T>(args.bias.empty() ? xhat * w : math::fma(xhat, w, load(args.bias.as<const T>()[i])));
  }
  if (!args.rstd.empty()) args.rstd.row<A>(r)[g] = rstd;
  if (!args.mean.empty()) args.mean.row<A>(r)[g] = mean;
}

template <class T>
void norm(const NormArgs& args) {
  for (int64_t r = 0; r < args.x.rows; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) norm_group<T>(args, r, g);
  }
}

template <class T>
void norm_backward_group(const NormBackwardArgs& args, int64_t r, int64_t g) {
  using A = Acc<T>;
  const int64_t d = args.x.cols / args.groups;
  const T* x = args.x.row<const T>(r) + g * d;
  const T* dy = args.dy.row<const T>(r) + g * d;
  const T* residual = args.residual.empty() ? nullptr : args.residual.row<const T>(r) + g * d;
  T* dx = args.dx.row<T>(r) + g * d;
  A* dw = args.dweight.as<A>();
  const bool centred = args.spec.kind == NormKind::layernorm;
  const A rstd = args.rstd.row<const A>(r)[g], mean = centred ? args.mean.row<const A>(r)[g] : A(0);
  const auto grad = [&](int64_t i) { return load(dy[i]) * norm_weight<T>(args.spec, args.weight, i); };
  const auto xhat = [&](int64_t i) { return (load(x[i]) - mean) * rstd; };
  const A sum = lane_sum<A>(d, [&](A acc, int64_t i) { return math::fma(grad(i), xhat(i), acc); });
  const A c = sum / static_cast<A>(d);
  const A m =
      centred ? lane_sum<A>(d, [&](A acc, int64_t i) { return acc + grad(i); }) / static_cast<A>(d) : A(0);
  for (int64_t i = 0; i < d; ++i) {
    dw[i] = math::fma(load(dy[i]), xhat(i), dw[i]);
    if (!args.dbias.empty()) args.dbias.as<A>()[i] = args.dbias.as<A>()[i] + load(dy[i]);
    A out = rstd * math::fma(-xhat(i), c, grad(i) - m);
    if (residual != nullptr) out = out + load(residual[i]);
    dx[i] = static_cast<T>(out);
  }
}

template <class T>
void norm_backward(const NormBackwardArgs& args) {
  for (int64_t r = 0; r < args.x.rows; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) norm_backward_group<T>(args, r, g);
  }
}

}  // namespace minite::ref
