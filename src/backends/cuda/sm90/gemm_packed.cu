#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/gemm_packed.h"
#include "backends/cuda/sm90/gemm_packed_kernel.h"

namespace minite::cuda::sm90 {
namespace {

template <int kTokens, bool kChunked>
void launch(const FewOperands& in, const TensorView& x, PackedShape shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  constexpr auto kKernel = packed_kernel<kTokens, kChunked>;
  constexpr int kBytes = PackedLayout<kTokens>::kBytes;
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  check(kAllowed, "shared memory of qgemm");
  shape.tiles_tokens = (shape.tokens + kTokens - 1) / kTokens;
  shape.tiles_rows = (shape.rows + kWeightRows - 1) / kWeightRows;
  const int tiles = shape.tiles_tokens * shape.tiles_rows;
  const int grid = tiles < device().multiprocessors ? tiles : device().multiprocessors;
  kKernel<<<grid, kPackedThreads, kBytes, stream>>>(
      tensor_map(x, Major::k, kTokens), code_map(in.codes, shape.rows, in.code_stride, kWeightRows), in,
      shape, epilogue);
  check(cudaGetLastError(), "qgemm");
}

}  // namespace

void gemm_packed(const FewOperands& in, const TensorView& x, int64_t rows, const DeviceEpilogue& epilogue,
                 void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  PackedShape shape{};
  shape.tokens = static_cast<int>(x.rows);
  shape.rows = static_cast<int>(rows);
  shape.depth_blocks = static_cast<int>(x.cols / kDepth);
  shape.chunk_blocks = static_cast<int>(chunk_length(rows, x.cols) / kDepth);
  const bool chunked = chunks(rows, x.cols) > 1;
  if (x.rows <= 64)
    return chunked ? launch<64, true>(in, x, shape, epilogue, stream)
                   : launch<64, false>(in, x, shape, epilogue, stream);
  if (chunked) return launch<128, true>(in, x, shape, epilogue, stream);
  if (x.rows <= 128) return launch<128, false>(in, x, shape, epilogue, stream);
  launch<256, false>(in, x, shape, epilogue, stream);
}

}  // namespace minite::cuda::sm90
