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
#include <type_traits>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/few_parts.h"

namespace minite::cuda::sm90 {
namespace {

/// Warps that multiply.
constexpr int most_warps(int column_tiles) { return column_tiles <= 2 ? 16 : 4; }

/// Tiles among a block's `tiles` that two warps share, 8 rows each: the four schedulers of a multiprocessor
/// have a multiple of four tiles and what is left in halves, so that none waits for another's whole tile.
__host__ __device__ constexpr int shared_tiles(int tiles) { return tiles % 4 <= 2 ? tiles % 4 : 0; }
__host__ __device__ constexpr int warps_for(int tiles) { return tiles + shared_tiles(tiles); }

struct FewShape {
  int tokens, rows;             ///< M, N
  int chunk, chunks;            ///< pairs of a chunk; their number
  int chunks_of_block, blocks;  ///< of a cluster
  int warps;                    ///< of a block that multiply, at most
};

/// A block's shared memory for up to 8 kTiles tokens: the warps' rings, the ring of values, what an owner
/// receives [its tiles][chunk][column tile][lane], barriers.
template <int kTiles, bool kChunked>
struct FewMemory {
  /// A long chain pays less for its ring in long stages; chunked, two blocks are to fit.
  static constexpr int kStages = !kChunked ? 2 : kTiles > 1 ? 3 : 4, kPairs = kChunked ? 2 : 4;
  using Rows = WarpRows<kTiles, kStages, kPairs>;
  using Values = ValueRing<kStages, kPairs>;
  static constexpr int kWeightBytes = Rows::kWeightBytes, kPitch = Values::kPitch;
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
  /// Sets the barriers up for the `warps` of the block that multiply; an owner announces the bytes of sums
  /// that it will receive.
  __device__ void start(const FewShape& shape, int rank, int warps) const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages * shape.warps; ++i) weights_full[i].init(1);
      for (int s = 0; s < kStages; ++s) {
        values_full[s].init(1);
        values_empty[s].init(static_cast<uint32_t>(32 * warps));
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

/// Whether warps may share a tile: not where they are few.
template <int kTiles, bool kChunked>
constexpr bool kHalves = !kChunked && kTiles <= 2;

/// A warp's chain over all of K, and its sums to y.
template <Part kPart, int kTiles, class Rows, class Chain>
__device__ void whole_chain(Rows& rows, const Chain& chain, const DeviceEpilogue& epilogue,
                            const FewShape& shape, int tile) {
  float d[kTiles][4] = {};
  chain(std::integral_constant<Part, kPart>{}, d, 0, rows.stages());
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
    finish<kPart>(epilogue, shape.rows, shape.tokens, make_float4(d[t][0], d[t][1], d[t][2], d[t][3]),
                  tile * kFragmentRows, t * 8);
}

template <int kTiles, bool kChunked>
__global__ void __launch_bounds__(32 * (most_warps(kTiles) + 1), 1)
    few_kernel(FewOperands in, FewShape shape, DeviceEpilogue epilogue) {
  using M = FewMemory<kTiles, kChunked>;
  extern __shared__ __align__(128) uint8_t raw[];
  const M memory(raw, shape);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = static_cast<int>(blockIdx.x) % shape.blocks;
  // Without chunks the row tiles are spread evenly over all blocks, one a multiprocessor if they fit.
  const auto even = [&](unsigned block) {
    return static_cast<int>(static_cast<int64_t>(block) * in.w.row_tiles / gridDim.x);
  };
  const int tile0 = kChunked ? static_cast<int>(blockIdx.x) / shape.blocks * shape.warps : even(blockIdx.x);
  const int tiles = kChunked ? shape.warps : even(blockIdx.x + 1) - tile0;
  const int warps = kHalves<kTiles, kChunked> ? warps_for(tiles) : tiles;
  memory.start(shape, rank, warps);
  if (kChunked) cluster_arrive();  // the others' barriers exist once all have arrived
  let_next_grid_start();
  const int first = rank * shape.chunks_of_block * shape.chunk;
  const int count = min(shape.chunks_of_block * shape.chunk, in.w.pairs - first);
  if (warp == shape.warps) {
    wait_for_grid_before();
    M::Values::copy(in.x + static_cast<int64_t>(first) * kPairDepth, in.x_stride, shape.tokens, count,
                    memory.values, M::kValueBytes, memory.values_full, memory.values_empty);
    if (kChunked) cluster_wait();
    return;
  }
  if (warp >= warps) return;
  // Warps of whole tiles come first; then two by two those that share one.
  const int alone = tiles - (warps - tiles), half = warp - alone;
  const int tile = tile0 + (half < 0 ? warp : alone + half / 2);
  typename M::Rows rows(in.w, tile, first, count, memory.weights + warp * M::kStages * M::kWeightBytes,
                        memory.weights_full + warp * M::kStages);
  wait_for_grid_before();
  rows.start();
  Ring<M::kStages> at;
  const uint32_t values = shared_address(memory.values) + lane % 8 * M::kPitch + lane / 8 * 16;
  const auto chain = [&](auto part, float(&d)[kTiles][4], int begin, int end) {
    for (int s = begin; s < end; ++s) {
      memory.values_full[at.stage].wait(at.parity);
      rows.template stage<decltype(part)::value>(d, s, values + at.stage * M::kValueBytes, 8 * M::kPitch);
      memory.values_empty[at.stage].arrive();
      at.advance();
    }
  };
  if constexpr (kChunked) {
    const int step = shape.chunk / M::kPairs;
    for (int begin = 0, chunk = rank * shape.chunks_of_block; begin < rows.stages(); begin += step, ++chunk) {
      float d[kTiles][4] = {};
      chain(std::integral_constant<Part, Part::whole>{}, d, begin, min(begin + step, rows.stages()));
      if (begin == 0) cluster_wait();
      send_sums(memory, shape, warp, chunk, d);
    }
    if (rank >= shape.warps) return;
    memory.sums_full->wait(0);
    finish_sums(memory, shape, epilogue, rank, warp, tile0);
  } else {
    if constexpr (kHalves<kTiles, kChunked>) {
      if (half >= 0 && half % 2 == 0)
        return whole_chain<Part::upper, kTiles>(rows, chain, epilogue, shape, tile);
      if (half >= 0) return whole_chain<Part::lower, kTiles>(rows, chain, epilogue, shape, tile);
    }
    whole_chain<Part::whole, kTiles>(rows, chain, epilogue, shape, tile);
  }
}

/// Where rows abound one block a multiprocessor shares the values among all its warps.
int warps_of(int64_t tokens, int64_t row_tiles, int chunks) {
  if (chunks > 1) return 4;
  const auto even = static_cast<int>((row_tiles + device().multiprocessors - 1) / device().multiprocessors);
  if (tokens > 16) return std::clamp(even, 4, most_warps(4));
  const int tiles = std::clamp(even, 1, most_warps(2));
  return std::max(warps_for(tiles), warps_for(tiles - 1));
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

/// Blocks among which row tiles are spread evenly: one a multiprocessor, or as many times as needed.
int even_blocks(int row_tiles, int warps) {
  const int all = device().multiprocessors;
  int blocks = std::min(row_tiles, all);
  while (warps_for((row_tiles + blocks - 1) / blocks) > warps) blocks += all;
  return blocks;
}

template <int kTiles, bool kChunked>
void launch(const FewOperands& in, const FewShape& shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  int blocks = (in.w.row_tiles + shape.warps - 1) / shape.warps * shape.blocks;
  if (!kChunked) blocks = even_blocks(in.w.row_tiles, shape.warps);
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
