#pragma once
// RMSNorm of one row, shared by the plain and the quantizing op.
#include "backends/simd/tasks.h"

namespace minite::simd::MINITE_ISA {

/// Row r of the op, group by group.
template <class T>
MINITE_INLINE void rmsnorm_row(const RmsNormArgs& args, int64_t r) {
  const int64_t d = args.x.cols / args.groups;
  const T* w = args.weight.as<const T>();
  for (int64_t g = 0; g < args.groups; ++g) {
    const T* x = args.x.row<const T>(r) + g * d;
    T* y = args.y.row<T>(r) + g * d;
    const float sum = lane_sum(d, [&](vf acc, int64_t i, int64_t n) {
      const vf v = load_n(x + i, n);
      return fma(v, v, acc);
    });
    const float rstd = 1.0f / __builtin_sqrtf(sum / static_cast<float>(d) + args.eps);
    for_lanes(
        d, [&](int64_t i, int64_t n) { store_n(y + i, load_n(x + i, n) * vf(rstd) * load_n(w + i, n), n); });
    if (!args.rstd.empty()) args.rstd.row<float>(r)[g] = rstd;
  }
}

}  // namespace minite::simd::MINITE_ISA
