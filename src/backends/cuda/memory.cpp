#include "backends/cuda/memory.h"

#include <cuda_runtime.h>

#include "core/fail.h"

namespace minite::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

void check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return;
  fail(ErrorCode::internal, "CUDA: {}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

void* allocate(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // the failure does not stick to the next call
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    fail(ErrorCode::resource, "CUDA: {} bytes asked for, {} of {} are free", bytes, free, total);
  }
  check(error, "cudaMalloc");
  return data;
}
void release(void* data) { (void)cudaFree(data); }

void copy_in(void* device, const void* host, int64_t bytes, void* stream) {
  check(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_of(stream)),
        "copy to the device");
}
void copy_out(void* host, const void* device, int64_t bytes, void* stream) {
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_of(stream)),
        "copy to the host");
}
void synchronize(void* stream) {
  check(cudaGetLastError(), "launch");
  check(cudaStreamSynchronize(stream_of(stream)), "a kernel");
}

}  // namespace

const DeviceMemory kMemory = {allocate, release, copy_in, copy_out, synchronize};

std::shared_ptr<std::byte> shared_bytes(int64_t bytes) {
  void* data = nullptr;
  check(cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocDefault), "cudaHostAlloc");
  return {static_cast<std::byte*>(data), [](std::byte* p) { (void)cudaFreeHost(p); }};
}

}  // namespace minite::cuda
