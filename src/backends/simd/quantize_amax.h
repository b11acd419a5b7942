#pragma once
// The amax of a whole matrix: a maximum is exact, so the order of the threads does not matter.
#include "backends/simd/quantize_columns.h"

namespace minite::simd::MINITE_ISA {

MINITE_INLINE void atomic_max(uint32_t& most, uint32_t value) {
  uint32_t seen = __atomic_load_n(&most, __ATOMIC_RELAXED);
  while (seen < value &&
         !__atomic_compare_exchange_n(&most, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

/// Amax of what the quantizer sees.
template <class T>
MINITE_INLINE float shared_amax(const TensorView& x, const QuantSpec& spec, const Exec& exec) {
  uint32_t most = 0;
  if (spec.rotation == Rotation::none) {
    for_rows(exec, x.rows, x.cols, [&](int64_t begin, int64_t end) {
      uint32_t mine = 0;
      for (int64_t r = begin; r < end; ++r) {
        const uint32_t row = amax_bits(x.row<const T>(r), x.cols);
        mine = mine < row ? row : mine;
      }
      atomic_max(most, mine);
    });
  } else {
    for_tasks(exec, ceil_div(x.cols, kLanes), [&](int64_t task, int) {
      const Strip<T> strip{x, task * kLanes, min64(kLanes, x.cols - task * kLanes)};
      atomic_max(most, fold_max_u32(strip.seen_amax(spec)));
    });
  }
  return std::bit_cast<float>(most);
}

/// The same into the one outer scale of `out`.
template <class T>
MINITE_INLINE Nvfp4Outer shared_outer(const TensorView& x, const QTensor& out, const Exec& exec) {
  const float amax = shared_amax<T>(x, out.spec, exec);
  const Nvfp4Outer outer = nvfp4_outer(amax, out.spec);
  out.amax[0] = amax;
  out.outer[0] = outer.s_dec;
  return outer;
}

}  // namespace minite::simd::MINITE_ISA
