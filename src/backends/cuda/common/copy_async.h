#pragma once
// Copies from global to shared memory that no register waits for. For .cu files only.
#include <cuda_runtime.h>

#include <cstdint>

namespace minite::cuda {

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
/// 16 bytes; both addresses are multiples of 16.
__device__ inline void copy_async(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
__device__ inline void copy_async(void* shared, const void* global) {
  copy_async(shared_address(shared), global);
}
/// The first `bytes` of 16, the rest zeros.
__device__ inline void copy_async(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}
/// Ends a group of the copies since the last group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for the copies of this thread until at most `kLeft` groups are under way.
template <int kLeft>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace minite::cuda
