#pragma once
// Device memory with an owner, and CUDA errors as exceptions. For .cu files only.
#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <vector>

#include "backends/cuda/error.h"
#include "backends/op_table.h"

namespace minite::cuda {

/// Throws unsupported when there is no device or no code for it, internal for every other error.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  const bool absent = error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
                      error == cudaErrorNoKernelImageForDevice;
  fail_cuda(absent, what, cudaGetErrorName(error), cudaGetErrorString(error));
}

/// Lets a kernel start before the one ahead of it in the stream has ended: for kernels that wait themselves
/// (griddepcontrol.wait).
inline cudaLaunchAttribute early_start() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

/// Shared memory of a block at most, on Hopper.
inline constexpr int kMostBytes = 227 * 1024;

/// Blocks of a grid, threads and dynamic shared memory of a block, blocks of a cluster.
struct LaunchShape {
  int blocks, threads, bytes, cluster;
};
/// Launches a kernel that may start early and needs much shared memory.
template <auto kKernel, class... Args>
void launch_early(const LaunchShape& shape, cudaStream_t stream, const char* what, const Args&... args) {
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
  check(kAllowed, what);
  cudaLaunchAttribute attributes[2] = {early_start(), {}};
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster == 1 ? 1 : 2;
  check(cudaLaunchKernelEx(&config, kKernel, args...), what);
}

inline cudaStream_t stream_of(const Exec& exec) { return static_cast<cudaStream_t>(exec.stream); }

/// An array on the device, freed with its owner.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) {
    check(cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
          "cudaMemcpy to the device");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  /// Waits for the kernels before it and copies to the host.
  [[nodiscard]] std::vector<T> to_host() const {
    check(cudaGetLastError(), "launch");
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy to the host");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

/// Blocks of `threads` that cover `count` elements.
inline unsigned blocks(size_t count, unsigned threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

}  // namespace minite::cuda
