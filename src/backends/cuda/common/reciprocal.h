#pragma once
// 1 / x without the division's checks. For .cu files only.
#include <cuda_runtime.h>

namespace minite::cuda {

/// fl(1 / x) for x in [2^-126, 2^126]: one Newton step from the processor's estimate; a test runs through
/// all. Outside, the estimate is 0 or infinite and the result 0 or NaN.
__device__ inline float quick_reciprocal(float x) {
  float estimate = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
  return fmaf(estimate, fmaf(-x, estimate, 1.0f), estimate);
}

}  // namespace minite::cuda
