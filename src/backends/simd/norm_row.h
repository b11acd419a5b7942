#pragma once
// A norm of one row, shared by the plain and the quantizing op.
#include <type_traits>

#include "backends/simd/tasks.h"

namespace minite::simd::MINITE_ISA {

/// body(kind) with the kind as a type, so that RMSNorm pays nothing for a mean that is 0.
template <class Body>
MINITE_INLINE void with_kind(const NormSpec& spec, const Body& body) {
  if (spec.kind == NormKind::layernorm) {
    return body(std::integral_constant<NormKind, NormKind::layernorm>{});
  }
  body(std::integral_constant<NormKind, NormKind::rmsnorm>{});
}

/// Columns of a norm's weight as they multiply.
template <class T>
MINITE_INLINE vf norm_weight(const NormSpec& spec, const T* w, int64_t n) {
  const vf x = load_n(w, n);
  return spec.gamma == Gamma::zero_centered ? x + vf(1.0f) : x;
}

/// Row r of the op, group by group.
template <class T, NormKind kKind>
MINITE_INLINE void norm_row(const NormArgs& args, int64_t r) {
  const int64_t d = args.x.cols / args.groups;
  const T* w = args.weight.as<const T>();
  const T* bias = args.bias.as<const T>();
  for (int64_t g = 0; g < args.groups; ++g) {
    const T* x = args.x.row<const T>(r) + g * d;
    T* y = args.y.row<T>(r) + g * d;
    float mean = 0.0f;
    if constexpr (kKind == NormKind::layernorm) {
      const float sum = lane_sum(d, [&](vf acc, int64_t i, int64_t n) { return acc + load_n(x + i, n); });
      mean = sum / static_cast<float>(d);
    }
    const float sum = lane_sum(d, [&](vf acc, int64_t i, int64_t n) {
      const vf v = load_n(x + i, n) - vf(mean);
      return fma(v, v, acc);
    });
    const float rstd = 1.0f / __builtin_sqrtf(sum / static_cast<float>(d) + args.eps);
    for_lanes(d, [&](int64_t i, int64_t n) {
      const vf xhat = (load_n(x + i, n) - vf(mean)) * vf(rstd), scale = norm_weight(args.spec, w + i, n);
      store_n(y + i, bias == nullptr ? xhat * scale : fma(xhat, scale, load_n(bias + i, n)), n);
    });
    if (!args.rstd.empty()) args.rstd.row<float>(r)[g] = rstd;
    if (!args.mean.empty()) args.mean.row<float>(r)[g] = mean;
  }
}

}  // namespace minite::simd::MINITE_ISA
