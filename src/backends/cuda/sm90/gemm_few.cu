// Products of few tokens with prepacked NVFP4 weights. A weight row is a row of the matrix instruction, a
// token a column, so that the 16 rows of an instruction are always full.
//
// A warp owns 16 weight rows. Its fragments (fragments.h) come by bulk copies into a ring of stages of its
// own; it waits for nobody to reuse a stage. The tokens' values of the same k come by another warp's bulk
// copies into a ring that the block shares. (Loads of fragments into registers do not work: the assembler
// collects them behind one scoreboard.)
//
// Where K is cut into chunks, the blocks of a cluster have the chunks of the same rows: each a chain of its
// own, as in the kernels for many rows. A row tile has an owner among the blocks; the others store their sums
// into its shared memory, and it adds them, chunks ascending.
#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/few_parts.h"

namespace minite::cuda::sm90 {
namespace {

/// Warps that multiply.
constexpr int most_warps(int column_tiles) { return column_tiles <= 2 ? 16 : 4; }
/// Bytes between tokens in a stage: 16-byte pieces of 8 tokens fall on all banks once.
constexpr int kPitch = 2 * kStageDepth + 16;

struct FewShape {
  int tokens, rows;             ///< M, N
  int chunk, chunks;            ///< pairs of a chunk; their number
  int chunks_of_block, blocks;  ///< of a cluster
  int warps;                    ///< that multiply
};

/// A block's shared memory for up to 8 kTiles tokens: the warps' rings, the ring of values, what an owner
/// receives [its tiles][chunk][column tile][lane], barriers.
template <int kTiles, bool kChunked>
struct FewMemory {
  static constexpr int kStages = kChunked && kTiles > 1 ? 3 : 4;  ///< so that two blocks fit
  static constexpr int kValueBytes = 8 * kTiles * kPitch, kSumBytes = kTiles * 512;
  uint8_t *weights, *values, *sums;
  Barrier *weights_full, *values_full, *values_empty, *sums_full;

  /// Row tiles that a block owns at most.
  static constexpr int owned(int warps, int blocks) { return (warps + blocks - 1) / blocks; }
  static constexpr int sum_bytes(const FewShape& s) {
    return kChunked ? owned(s.warps, s.blocks) * s.chunks * kSumBytes : 0;
  }
  static constexpr int bytes(const FewShape& s) {
    return kStages * (s.warps * kWeightBytes + kValueBytes) + sum_bytes(s) +
           (kStages * (s.warps + 2) + 1) * 8;
  }
  __device__ FewMemory(uint8_t* raw, const FewShape& s)
      : weights(raw), values(raw + kStages * s.warps * kWeightBytes), sums(values + kStages * kValueBytes) {
    weights_full = reinterpret_cast<Barrier*>(sums + sum_bytes(s));
    values_full = weights_full + kStages * s.warps;
    values_empty = values_full + kStages;
    sums_full = values_empty + kStages;
  }
  /// Sets the barriers up; an owner announces the bytes of sums that it will receive.
  __device__ void start(const FewShape& shape, int rank) const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages * shape.warps; ++i) weights_full[i].init(1);
      for (int s = 0; s < kStages; ++s) {
        values_full[s].init(1);
        values_empty[s].init(static_cast<uint32_t>(shape.warps));
      }
      sums_full->init(1);
      fence_barrier_init();
      const int own = rank < shape.warps ? (shape.warps - 1 - rank) / shape.blocks + 1 : 0;
      if (kChunked && own > 0)
        sums_full->arrive_expecting(static_cast<uint32_t>(own * shape.chunks * kSumBytes));
    }
    __syncthreads();
  }
};

/// The copies of values of pairs [first, first + count): one lane, a copy a token and stage.
template <int kTiles, bool kChunked>
__device__ void copy_values(const FewOperands& in, const FewShape& shape,
                            const FewMemory<kTiles, kChunked>& memory, int first, int count) {
  using M = FewMemory<kTiles, kChunked>;
  const uint16_t* x = in.x + static_cast<int64_t>(first) * kPairDepth;
  Ring<M::kStages> at;
  for (int s = 0; s * kPairs < count; ++s) {
    const auto bytes = static_cast<uint32_t>(min(kPairs, count - s * kPairs) * kPairDepth * 2);
    Barrier& full = memory.values_full[at.stage];
    memory.values_empty[at.stage].wait(at.parity ^ 1);
    full.arrive_expecting(bytes * static_cast<uint32_t>(shape.tokens));
    for (int t = 0; t < shape.tokens; ++t)
      load_bytes(memory.values + at.stage * M::kValueBytes + t * kPitch,
                 x + t * in.x_stride + s * kStageDepth, bytes, full);
    at.advance();
  }
}

/// Sends a chunk's sums of row tile `warp` to its owner.
template <int kTiles>
__device__ void send_sums(const FewMemory<kTiles, true>& memory, const FewShape& shape, int warp, int chunk,
                          const float (&d)[kTiles][4]) {
  const int owner = warp % shape.blocks;
  uint8_t* to = memory.sums +
                (warp / shape.blocks * shape.chunks + chunk) * FewMemory<kTiles, true>::kSumBytes +
                threadIdx.x % 32 * 16;
  const uint32_t there = address_in(to, owner), barrier = address_in(memory.sums_full, owner);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) store_async(there + tile * 512, d[tile], barrier);
}

/// Adds what arrived for the row tiles of this block.
template <int kTiles>
__device__ void finish_sums(const FewMemory<kTiles, true>& memory, const FewShape& shape,
                            const DeviceEpilogue& epilogue, int rank, int warp, int tile0) {
  using M = FewMemory<kTiles, true>;
  for (int i = warp; i < M::owned(shape.warps, shape.blocks) * kTiles; i += shape.warps) {
    const int own = i / kTiles, tile = i % kTiles, row_tile = own * shape.blocks + rank;
    if (row_tile >= shape.warps) break;
    const float4 sum =
        add_chunks(memory.sums + own * shape.chunks * M::kSumBytes + tile * 512 + threadIdx.x % 32 * 16,
                   shape.chunks, M::kSumBytes);
    finish(epilogue, shape.rows, shape.tokens, sum, (tile0 + row_tile) * kFragmentRows, tile * 8);
  }
}

template <int kTiles, bool kChunked>
__global__ void __launch_bounds__(32 * (most_warps(kTiles) + 1), 1)
    few_kernel(FewOperands in, FewShape shape, DeviceEpilogue epilogue) {
  using M = FewMemory<kTiles, kChunked>;
  extern __shared__ __align__(128) uint8_t raw[];
  const M memory(raw, shape);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = static_cast<int>(blockIdx.x) % shape.blocks;
  const int tile0 = static_cast<int>(blockIdx.x) / shape.blocks * shape.warps;
  memory.start(shape, rank);
  if (kChunked) cluster_arrive();  // the others' barriers exist once all have arrived
  let_next_grid_start();
  const int first = rank * shape.chunks_of_block * shape.chunk;
  const int count = min(shape.chunks_of_block * shape.chunk, in.w.pairs - first);
  if (warp == shape.warps) {
    wait_for_grid_before();
    if (lane == 0) copy_values(in, shape, memory, first, count);
    __syncwarp();
    if (kChunked) cluster_wait();
    return;
  }
  WarpRows<kTiles, M::kStages> rows(in.w, tile0 + warp, first, count,
                                    memory.weights + warp * M::kStages * kWeightBytes,
                                    memory.weights_full + warp * M::kStages);
  wait_for_grid_before();
  rows.start();
  Ring<M::kStages> at;
  const uint32_t values = shared_address(memory.values) + lane % 8 * kPitch + lane / 8 * 16;
  const auto chain = [&](float(&d)[kTiles][4], int begin, int end) {
    for (int s = begin; s < end; ++s) {
      memory.values_full[at.stage].wait(at.parity);
      rows.stage(d, s, values + at.stage * M::kValueBytes, 8 * kPitch);
      if (lane == 0) memory.values_empty[at.stage].arrive();
      at.advance();
    }
  };
  if constexpr (kChunked) {
    const int step = shape.chunk / kPairs;
    for (int begin = 0, chunk = rank * shape.chunks_of_block; begin < rows.stages(); begin += step, ++chunk) {
      float d[kTiles][4] = {};
      chain(d, begin, min(begin + step, rows.stages()));
      if (begin == 0) cluster_wait();
      send_sums(memory, shape, warp, chunk, d);
    }
    if (rank >= shape.warps) return;
    memory.sums_full->wait(0);
    finish_sums(memory, shape, epilogue, rank, warp, tile0);
  } else {
    float d[kTiles][4] = {};
    chain(d, 0, rows.stages());
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      finish(epilogue, shape.rows, shape.tokens, make_float4(d[tile][0], d[tile][1], d[tile][2], d[tile][3]),
             (tile0 + warp) * kFragmentRows, tile * 8);
  }
}

/// Where rows abound one block a multiprocessor shares the values among all its warps.
int warps_of(int64_t tokens, int64_t row_tiles, int chunks) {
  if (chunks > 1) return 4;
  const auto even = static_cast<int>((row_tiles + device().multiprocessors - 1) / device().multiprocessors);
  return std::clamp((even + 1) / 2 * 2, 4, most_warps(tokens <= 16 ? 2 : 4));
}

FewShape shape_of(int64_t tokens, int64_t rows, int64_t depth) {
  FewShape shape{};
  shape.tokens = static_cast<int>(tokens);
  shape.rows = static_cast<int>(rows);
  const ChunkSplit split = split_chunks(rows, depth);
  shape.chunks = split.chunks;
  shape.chunks_of_block = split.of_block;
  shape.blocks = split.blocks;
  shape.chunk =
      static_cast<int>(shape.chunks == 1 ? fragment_pairs(depth) : chunk_length(rows, depth) / kPairDepth);
  shape.warps = warps_of(tokens, fragment_row_tiles(rows), shape.chunks);
  return shape;
}

template <int kTiles, bool kChunked>
void launch(const FewOperands& in, const FewShape& shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  const auto blocks = (in.w.row_tiles + shape.warps - 1) / shape.warps * shape.blocks;
  launch_early<few_kernel<kTiles, kChunked>>(
      {blocks, 32 * (shape.warps + 1), FewMemory<kTiles, kChunked>::bytes(shape),
       kChunked ? shape.blocks : 1},
      stream, "qgemm", in, shape, epilogue);
}

template <int kTiles>
void launch(const FewOperands& in, const FewShape& shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  shape.chunks > 1 ? launch<kTiles, true>(in, shape, epilogue, stream)
                   : launch<kTiles, false>(in, shape, epilogue, stream);
}

template <int kTiles>
int bytes_of(const FewShape& shape) {
  return shape.chunks > 1 ? FewMemory<kTiles, true>::bytes(shape) : FewMemory<kTiles, false>::bytes(shape);
}

}  // namespace

bool few_fits(int64_t tokens, int64_t n, int64_t k) {
  if (k % kPairDepth != 0) return false;
  const FewShape shape = shape_of(tokens, n, k);
  const auto bytes = tokens <= 8    ? bytes_of<1>
                     : tokens <= 16 ? bytes_of<2>
                     : tokens <= 32 ? bytes_of<4>
                                    : bytes_of<8>;
  return bytes(shape) <= kMostBytes;
}

void gemm_few(const FewOperands& in, int64_t tokens, int64_t rows, int64_t depth,
              const DeviceEpilogue& epilogue, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  const FewShape shape = shape_of(tokens, rows, depth);
  if (tokens <= 8) return launch<1>(in, shape, epilogue, stream);
  if (tokens <= 16) return launch<2>(in, shape, epilogue, stream);
  if (tokens <= 32) return launch<4>(in, shape, epilogue, stream);
  launch<8>(in, shape, epilogue, stream);
}

}  // namespace minite::cuda::sm90
