#pragma once
// Shared memory by its 32-bit addresses, which a loop keeps in a register. For .cu files only.
#include <cuda_runtime.h>

#include <cstdint>

namespace minite::cuda {

__device__ inline uint32_t load_shared(uint32_t at) {
  uint32_t v = 0;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
  return v;
}
__device__ inline float2 load_shared_pair(uint32_t at) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at));
  return v;
}
__device__ inline uint4 load_shared_vector(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}

}  // namespace minite::cuda
