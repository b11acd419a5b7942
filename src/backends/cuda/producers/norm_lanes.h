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

/// acc folded with step(acc, x(lane)), step(acc, x(lane + 16)), ... in this order. The values of eight steps
/// are read while the eight before are added: a step waits for the one before it, a read need not.
template <class Read, class Step>
__device__ inline float walk(const Read& x, int d, int lane, const Step& step) {
  constexpr int kAhead = 8;
  float acc = 0, now[kAhead], next[kAhead];
  int i = lane;
  const int whole = (d - lane + 15) / 16 / kAhead;  // turns of eight steps
#pragma unroll
  for (int k = 0; k < kAhead; ++k) next[k] = whole > 0 ? x(i + 16 * k) : 0.0f;
#pragma unroll 2
  for (int turn = 0; turn < whole; ++turn, i += 16 * kAhead) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      now[k] = next[k];
      if (turn + 1 < whole) next[k] = x(i + 16 * (kAhead + k));
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) acc = step(acc, now[k]);
  }
  for (; i < d; i += 16) acc = step(acc, x(i));
  return acc;
}

/// Statistics of a row of d elements. All 32 lanes of a warp call it; walk_of(step) folds a step over the
/// lane's chain.
template <class WalkOf>
__device__ inline NormStats norm_stats(const WalkOf& walk_of, int d, NormKind kind, float eps) {
  float mean = 0, sum = 0;
  if (kind == NormKind::layernorm) {
    sum = walk_of([](float acc, float v) { return acc + v; });
    mean = fold_lanes(sum) / static_cast<float>(d);
    sum = walk_of([mean](float acc, float v) { return fmaf(v - mean, v - mean, acc); });
  } else {
    sum = walk_of([](float acc, float v) { return fmaf(v, v, acc); });
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
