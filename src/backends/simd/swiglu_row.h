#pragma once
// SwiGLU of one row, shared by the plain and the quantizing op.
#include "backends/simd/vec.h"

namespace minite::simd::MINITE_ISA {

/// y = silu(gate) * up for x = [gate; up], f columns each.
template <class T>
MINITE_INLINE void swiglu_row(const T* x, int64_t f, T* y) {
  for_lanes(f, [&](int64_t i, int64_t n) {
    const vf g = load_n(x + i, n), u = load_n(x + f + i, n);
    store_n(y + i, g * math::sigmoid(g) * u, n);
  });
}

}  // namespace minite::simd::MINITE_ISA
