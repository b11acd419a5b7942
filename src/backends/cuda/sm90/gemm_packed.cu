#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/gemm_packed.h"
#include "backends/cuda/sm90/gemm_packed_kernel.h"

namespace minite::cuda::sm90 {
namespace {

constexpr int kMostBlocks = 8;  ///< of a cluster
constexpr int kMostBytes = 227 * 1024;

template <auto kKernel>
void allow_memory() {
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
  check(kAllowed, "shared memory of qgemm");
}

template <int kTokens>
PackedShape with_tiles(PackedShape shape) {
  shape.tiles_tokens = (shape.tokens + kTokens - 1) / kTokens;
  shape.tiles_rows = (shape.rows + kWeightRows - 1) / kWeightRows;
  return shape;
}

template <int kTokens>
void launch(const Fragments& w, const TensorView& x, PackedShape shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  constexpr auto kKernel = packed_kernel<kTokens>;
  allow_memory<kKernel>();
  shape = with_tiles<kTokens>(shape);
  using L = PackedLayout<kTokens, false>;
  const int grid = std::min(shape.tiles_tokens * shape.tiles_rows, device().multiprocessors * L::kBlocks);
  cudaLaunchAttribute attribute = early_start();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid));
  config.blockDim = dim3(kPackedThreads);
  config.dynamicSmemBytes = static_cast<size_t>(L::bytes(1));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kKernel, tensor_map(x, Major::k, kTokens), w, shape, epilogue), "qgemm");
}

template <int kTokens>
void launch_chunks(const Fragments& w, const TensorView& x, PackedShape shape, const DeviceEpilogue& epilogue,
                   cudaStream_t stream) {
  constexpr auto kKernel = packed_chunks_kernel<kTokens>;
  allow_memory<kKernel>();
  shape = with_tiles<kTokens>(shape);
  cudaLaunchAttribute attributes[2] = {early_start(), {}};
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(shape.blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.tiles_tokens * shape.tiles_rows * shape.blocks));
  config.blockDim = dim3(kPackedThreads);
  config.dynamicSmemBytes = static_cast<size_t>(PackedLayout<kTokens, true>::bytes(shape.chunks_of_block));
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  check(cudaLaunchKernelEx(&config, kKernel, tensor_map(x, Major::k, kTokens), w, shape, epilogue), "qgemm");
}

}  // namespace

bool packed_fits(int64_t n, int64_t k) {
  const auto count = static_cast<int>(chunks(n, k)), of_block = (count + kMostBlocks - 1) / kMostBlocks;
  return count == 1 || PackedLayout<64, true>::bytes(of_block) <= kMostBytes;
}

void gemm_packed(const Fragments& w, const TensorView& x, int64_t rows, const DeviceEpilogue& epilogue,
                 void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  PackedShape shape{};
  shape.tokens = static_cast<int>(x.rows);
  shape.rows = static_cast<int>(rows);
  shape.chunks = static_cast<int>(chunks(rows, x.cols));
  if (shape.chunks == 1) {
    if (x.rows <= 64) return launch<64>(w, x, shape, epilogue, stream);
    if (x.rows <= 128) return launch<128>(w, x, shape, epilogue, stream);
    return launch<256>(w, x, shape, epilogue, stream);
  }
  shape.chunk = static_cast<int>(chunk_length(rows, x.cols) / kPairDepth);
  shape.chunks_of_block = (shape.chunks + kMostBlocks - 1) / kMostBlocks;
  shape.blocks = (shape.chunks + shape.chunks_of_block - 1) / shape.chunks_of_block;
  const bool large = x.rows > 64 && PackedLayout<128, true>::bytes(shape.chunks_of_block) <= kMostBytes;
  large ? launch_chunks<128>(w, x, shape, epilogue, stream)
        : launch_chunks<64>(w, x, shape, epilogue, stream);
}

}  // namespace minite::cuda::sm90
