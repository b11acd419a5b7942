#pragma once
// Launches one instance of gemm_kernel. For .cu files only.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/gemm.h"
#include "backends/cuda/sm90/gemm_kernel.h"

namespace minite::cuda::sm90 {

template <int kN, bool kChunked, Major kA, Major kB>
void launch_gemm(const DenseProduct& p, const DeviceEpilogue& epilogue, cudaStream_t stream) {
  constexpr auto kKernel = gemm_kernel<kN, kA, kB, kChunked>;
  constexpr int kBytes = Layout<kN>::kBytes;
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  check(kAllowed, "shared memory of qgemm");
  GemmShape shape{};
  shape.m = static_cast<int>(p.m);
  shape.n = static_cast<int>(p.n);
  shape.tiles_m = (shape.m + kTileRows - 1) / kTileRows;
  shape.tiles_n = (shape.n + kN - 1) / kN;
  shape.depth_blocks = static_cast<int>((p.k + kDepth - 1) / kDepth);
  shape.chunk_blocks = static_cast<int>((p.chunk + kDepth - 1) / kDepth);
  const int tiles = shape.tiles_m * shape.tiles_n;
  const int grid = tiles < device().multiprocessors ? tiles : device().multiprocessors;
  kKernel<<<grid, kThreads, kBytes, stream>>>(tensor_map(p.a, kA, kTileRows), tensor_map(p.b, kB, kN), shape,
                                              epilogue);
  check(cudaGetLastError(), "qgemm");
}

template <int kN, bool kChunked>
void launch_gemm(const DenseProduct& p, const DeviceEpilogue& epilogue, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  using enum Major;
  if (p.a_major == k && p.b_major == k) return launch_gemm<kN, kChunked, k, k>(p, epilogue, stream);
  if (p.a_major == k) return launch_gemm<kN, kChunked, k, rows>(p, epilogue, stream);
  if (p.b_major == k) return launch_gemm<kN, kChunked, rows, k>(p, epilogue, stream);
  launch_gemm<kN, kChunked, rows, rows>(p, epilogue, stream);
}

}  // namespace minite::cuda::sm90
