#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/gemm_packed.h"
#include "backends/cuda/sm90/gemm_packed_kernel.h"

namespace minite::cuda::sm90 {
namespace {

template <int kTokens>
PackedShape with_tiles(PackedShape shape) {
  shape.tiles_tokens = (shape.tokens + kTokens - 1) / kTokens;
  shape.tiles_rows = (shape.rows + kWeightRows - 1) / kWeightRows;
  return shape;
}

template <int kTokens>
void launch(const Fragments& w, const TensorView& x, PackedShape shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  using L = PackedLayout<kTokens, false>;
  shape = with_tiles<kTokens>(shape);
  const int blocks = std::min(shape.tiles_tokens * shape.tiles_rows, device().multiprocessors * L::kBlocks);
  launch_early<packed_kernel<kTokens>>({blocks, kPackedThreads, L::bytes(1), 1}, stream, "qgemm",
                                       tensor_map(x, Major::k, kTokens), w, shape, epilogue);
}

template <int kTokens>
void launch_chunks(const Fragments& w, const TensorView& x, PackedShape shape, const DeviceEpilogue& epilogue,
                   cudaStream_t stream) {
  using L = PackedLayout<kTokens, true>;
  shape = with_tiles<kTokens>(shape);
  const int blocks = shape.tiles_tokens * shape.tiles_rows * shape.blocks;
  launch_early<packed_chunks_kernel<kTokens>>(
      {blocks, kPackedThreads, L::bytes(shape.chunks_of_block), shape.blocks}, stream, "qgemm",
      tensor_map(x, Major::k, kTokens), w, shape, epilogue);
}

}  // namespace

bool packed_fits(int64_t n, int64_t k) {
  const ChunkSplit split = split_chunks(n, k);
  return split.chunks == 1 || PackedLayout<64, true>::bytes(split.of_block) <= kMostBytes;
}

void gemm_packed(const Fragments& w, const TensorView& x, int64_t rows, const DeviceEpilogue& epilogue,
                 void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  PackedShape shape{};
  shape.tokens = static_cast<int>(x.rows);
  shape.rows = static_cast<int>(rows);
  const ChunkSplit split = split_chunks(rows, x.cols);
  shape.chunks = split.chunks;
  shape.chunks_of_block = split.of_block;
  shape.blocks = split.blocks;
  if (shape.chunks == 1) {
    if (x.rows <= 64) return launch<64>(w, x, shape, epilogue, stream);
    if (x.rows <= 128) return launch<128>(w, x, shape, epilogue, stream);
    return launch<256>(w, x, shape, epilogue, stream);
  }
  shape.chunk = static_cast<int>(chunk_length(rows, x.cols) / kPairDepth);
  const bool large = x.rows > 64 && PackedLayout<128, true>::bytes(shape.chunks_of_block) <= kMostBytes;
  large ? launch_chunks<128>(w, x, shape, epilogue, stream)
        : launch_chunks<64>(w, x, shape, epilogue, stream);
}

}  // namespace minite::cuda::sm90
