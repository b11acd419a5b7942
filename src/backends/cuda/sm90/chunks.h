#pragma once
// The order in which every sm_90 product adds: steps of 16 k ascending on the tensor cores; K is cut into
// chunks, each a chain of its own from zero, whose sums add ascending in FP32. The cut depends on (N, K)
// alone, so that a kernel for few rows, which spreads chunks over warps, and a kernel for many rows agree bit
// for bit.
#include <cstdint>

namespace minite::cuda::sm90 {

/// k of one chunk; the last may be shorter.
inline constexpr int64_t kChunk = 1024;
/// From here on there are enough columns to fill the device without a cut.
inline constexpr int64_t kWide = 8192;

constexpr int64_t chunk_length(int64_t n, int64_t k) { return n >= kWide || k <= kChunk ? k : kChunk; }
constexpr int64_t chunks(int64_t n, int64_t k) {
  const int64_t length = chunk_length(n, k);
  return length == 0 ? 1 : (k + length - 1) / length;
}

/// How the blocks of a cluster share the chunks of K: `of_block` each, the last may have fewer.
struct ChunkSplit {
  int chunks, of_block, blocks;
};
constexpr ChunkSplit split_chunks(int64_t n, int64_t k) {
  constexpr int kMostBlocks = 8;  // of a cluster, on every Hopper GPU
  const auto count = static_cast<int>(chunks(n, k)), of_block = (count + kMostBlocks - 1) / kMostBlocks;
  return {count, of_block, (count + of_block - 1) / of_block};
}

}  // namespace minite::cuda::sm90
