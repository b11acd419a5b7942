#pragma once
// RMSNorm and its gradient, by groups of each row.
//
//   rstd = 1 / sqrt(sum(x^2) / D + eps)         xhat = x * rstd         y = xhat * w
//   g = dy * w      c = sum(g * xhat) / D       dx = rstd * (g - xhat * c) (+ residual)     dw += dy * xhat
#include "backends/ref/numeric.h"
#include "ops/args.h"

namespace minite::ref {

template <class T>
void rmsnorm(const RmsNormArgs& args) {
  using A = Acc<T>;
  const int64_t d = args.x.cols / args.groups;
  const T* w = args.weight.as<const T>();
  for (int64_t r = 0; r < args.x.rows; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) {
      const T* x = args.x.row<const T>(r) + g * d;
      T* y = args.y.row<T>(r) + g * d;
      const A sum = lane_sum<A>(d, [&](A acc, int64_t i) { return math::fma(load(x[i]), load(x[i]), acc); });
      const A rstd = A(1) / std::sqrt(sum / static_cast<A>(d) + static_cast<A>(args.eps));
      for (int64_t i = 0; i < d; ++i) y[i] = static_cast<T>(load(x[i]) * rstd * load(w[i]));
      if (!args.rstd.empty()) args.rstd.row<A>(r)[g] = rstd;
    }
  }
}

template <class T>
void rmsnorm_backward(const RmsNormBackwardArgs& args) {
  using A = Acc<T>;
  const int64_t d = args.x.cols / args.groups;
  const T* w = args.weight.as<const T>();
  A* dw = args.dweight.as<A>();
  for (int64_t r = 0; r < args.x.rows; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) {
      const T* x = args.x.row<const T>(r) + g * d;
      const T* dy = args.dy.row<const T>(r) + g * d;
      const T* residual = args.residual.empty() ? nullptr : args.residual.row<const T>(r) + g * d;
      T* dx = args.dx.row<T>(r) + g * d;
      const A rstd = args.rstd.row<const A>(r)[g];
      const A sum = lane_sum<A>(
          d, [&](A acc, int64_t i) { return math::fma(load(dy[i]) * load(w[i]), load(x[i]) * rstd, acc); });
      const A c = sum / static_cast<A>(d);
      for (int64_t i = 0; i < d; ++i) {
        const A xhat = load(x[i]) * rstd;
        dw[i] = math::fma(load(dy[i]), xhat, dw[i]);
        A grad = rstd * math::fma(-xhat, c, load(dy[i]) * load(w[i]));
        if (residual != nullptr) grad = grad + load(residual[i]);
        dx[i] = static_cast<T>(grad);
      }
    }
  }
}

}  // namespace minite::ref
