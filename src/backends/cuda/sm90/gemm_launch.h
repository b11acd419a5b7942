#pragma once
// Launches one instance of gemm_kernel. For .cu files only.
#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/gemm.h"
#include "backends/cuda/sm90/gemm_kernel.h"

namespace minite::cuda::sm90 {

template <int kN, bool kChunked, Major kA, Major kB, int kCluster>
void launch_gemm(const DenseProduct& p, const DeviceEpilogue& epilogue, cudaStream_t stream) {
  constexpr auto kKernel = gemm_kernel<kN, kA, kB, kChunked, kCluster>;
  constexpr int kBytes = Layout<kN>::kBytes, kRows = kTileRows * kCluster;
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  check(kAllowed, "shared memory of qgemm");
  GemmShape shape{};
  shape.m = static_cast<int>(p.m);
  shape.n = static_cast<int>(p.n);
  shape.tiles_m = (shape.m + kRows - 1) / kRows;
  shape.tiles_n = (shape.n + kN - 1) / kN;
  shape.depth_blocks = static_cast<int>((p.k + kDepth - 1) / kDepth);
  shape.chunk_blocks = static_cast<int>((p.chunk + kDepth - 1) / kDepth);
  const int clusters = std::min(shape.tiles_m * shape.tiles_n, device().multiprocessors / kCluster);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * kCluster));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = kCluster == 1 ? 0 : 1;
  // A box of B is what one block of the cluster loads.
  check(cudaLaunchKernelEx(&config, kKernel, tensor_map(p.a, kA, kTileRows),
                           tensor_map(p.b, kB, kN / kCluster), shape, epilogue),
        "qgemm");
}

template <int kN, bool kChunked, int kCluster>
void launch_gemm(const DenseProduct& p, const DeviceEpilogue& epilogue, cudaStream_t stream) {
  using enum Major;
  if (p.a_major == k && p.b_major == k) return launch_gemm<kN, kChunked, k, k, kCluster>(p, epilogue, stream);
  if (p.a_major == k) return launch_gemm<kN, kChunked, k, rows, kCluster>(p, epilogue, stream);
  if (p.b_major == k) return launch_gemm<kN, kChunked, rows, k, kCluster>(p, epilogue, stream);
  launch_gemm<kN, kChunked, rows, rows, kCluster>(p, epilogue, stream);
}

template <int kN, bool kChunked>
void launch_gemm(const DenseProduct& p, const DeviceEpilogue& epilogue, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  if (p.m <= kTileRows) return launch_gemm<kN, kChunked, 1>(p, epilogue, stream);
  launch_gemm<kN, kChunked, 2>(p, epilogue, stream);
}

}  // namespace minite::cuda::sm90
