#include "backends/cuda/device.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

namespace minite::cuda {
namespace {

constexpr int kOldest = 90;  ///< the rooms of this backend hold code for 9.0 and 10.0

std::string version(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

int attribute(cudaDeviceAttr which) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess ? value : 0;
}

/// What the runtime says against using device 0.
std::string absence(const Device& d) {
  if (d.driver == 0)
    return fmt::format("no CUDA driver on this machine; this build needs one for CUDA {}",
                       version(d.runtime));
  if (d.driver / 1000 < d.runtime / 1000)
    return fmt::format("the driver knows CUDA {}, this build needs {}; update the driver", version(d.driver),
                       version(d.runtime));
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return fmt::format("no CUDA device: {}", cudaGetErrorString(error));
  return count > 0 ? "" : "no CUDA device";
}

Device examine() {
  Device d;
  (void)cudaRuntimeGetVersion(&d.runtime);
  if (cudaDriverGetVersion(&d.driver) != cudaSuccess) d.driver = 0;
  d.problem = absence(d);
  if (!d.problem.empty()) return d;
  d.architecture =
      10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
  d.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
  d.shared_memory = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) {
    d.name = properties.name;
    d.memory = static_cast<int64_t>(properties.totalGlobalMem);
  }
  if (d.architecture < kOldest)
    d.problem = fmt::format("{} has compute capability {}.{}, kernels here start at 9.0 (Hopper)", d.name,
                            d.architecture / 10, d.architecture % 10);
  return d;
}

}  // namespace

const Device& device() {
  static const Device kDevice = examine();
  return kDevice;
}

std::string description(const Device& d) {
  return fmt::format(
      "will use {} (compute capability {}.{}, {} multiprocessors, {:.1f} GiB, driver for CUDA {})", d.name,
      d.architecture / 10, d.architecture % 10, d.multiprocessors, static_cast<double>(d.memory) / (1 << 30),
      version(d.driver));
}

std::string hopper_problem(const Device& d) {
  constexpr int64_t kSharedMemory = 227 * 1024;  ///< of a block on sm_90
  if (!d.problem.empty()) return d.problem;
  if (d.architecture != 90)
    return fmt::format("needs compute capability 9.0 (wgmma), {} has {}.{}", d.name, d.architecture / 10,
                       d.architecture % 10);
  if (d.shared_memory < kSharedMemory)
    return fmt::format("needs {} bytes of shared memory a block, {} gives {}", kSharedMemory, d.name,
                       d.shared_memory);
  return {};
}

}  // namespace minite::cuda
