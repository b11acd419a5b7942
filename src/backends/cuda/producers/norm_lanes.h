#pragma once
// The sums of a norm in the order of docs/numerics.md: 16 neighbouring lanes of a warp own the 16 chains of a
// row. For .cu files only.
#include <cuda_runtime.h>

#include "ops/args.h"

namespace minite::cuda {

struct NormStats {
  float mean, rstd;
};

/// Lanes fold 8, 4, 2, 1; a + b and b + a have the same bits, so every lane ends with lane 0's.
__device__ inline float fold_lanes(float v) {
#pragma unroll
  for (int lane = 8; lane > 0; lane /= 2) v = v + __shfl_xor_sync(0xFFFFFFFFu, v, lane);
  return v;
}

/// Statistics of x(0) .. x(d - 1). All 32 lanes of a warp call it; `lane` is the chain's number.
template <class Read>
__device__ inline NormStats norm_stats(const Read& x, int d, int lane, NormKind kind, float eps) {
  float mean = 0;
  if (kind == NormKind::layernorm) {
    float sum = 0;
#pragma unroll 8
    for (int i = lane; i < d; i += 16) sum = sum + x(i);
    mean = fold_lanes(sum) / static_cast<float>(d);
  }
  float sum = 0;
#pragma unroll 8
  for (int i = lane; i < d; i += 16) {
    const float centred = x(i) - mean;
    sum = fmaf(centred, centred, sum);
  }
  sum = fold_lanes(sum);
  return {mean, 1.0f / sqrtf(sum / static_cast<float>(d) + eps)};
}

/// One element of y before its rounding.
__device__ inline float normed(float x, const NormStats& s, float weight, bool zero_centered) {
  return (x - s.mean) * s.rstd * (zero_centered ? weight + 1.0f : weight);
}
__device__ inline float normed(float x, const NormStats& s, float weight, bool zero_centered, float bias) {
  return fmaf((x - s.mean) * s.rstd, zero_centered ? weight + 1.0f : weight, bias);
}

}  // namespace minite::cuda
