#pragma once
// sigmoid of core/math.h on the device, with its bits. For .cu files only.
#include <cuda_runtime.h>

#include "backends/cuda/common/reciprocal.h"
#include "core/math.h"

namespace minite::cuda {

/// A number type of core/math.h for |x| <= 86: exp's clamps and the second factor of its last step have no
/// effect there, since 2^n and the result are normal.
struct InRange {
  float v;
  __device__ explicit InRange(float x) : v(x) {}
  __device__ friend InRange operator+(InRange a, InRange b) { return InRange(a.v + b.v); }
  __device__ friend InRange operator-(InRange a, InRange b) { return InRange(a.v - b.v); }
  __device__ friend InRange operator*(InRange a, InRange b) { return InRange(a.v * b.v); }
  __device__ friend InRange fma(InRange a, InRange b, InRange c) { return InRange(fmaf(a.v, b.v, c.v)); }
  __device__ friend InRange select_lt(InRange, InRange, InRange, InRange otherwise) { return otherwise; }
  /// x 2^n: n is added to the exponent. `shifted` is 1.5 2^23 + n, whose upper bits leave the word.
  __device__ friend InRange scale_by_power(InRange x, InRange shifted) {
    return InRange(__uint_as_float(__float_as_uint(x.v) + (__float_as_uint(shifted.v) << 23)));
  }
};

__device__ inline float sigmoid_in_range(float x) {
  return quick_reciprocal(1.0f + math::exp(InRange(0.0f - x)).v);
}
__device__ inline float sigmoid(float x) {
  return fabsf(x) <= 86.0f ? sigmoid_in_range(x) : math::sigmoid(x);
}

}  // namespace minite::cuda
