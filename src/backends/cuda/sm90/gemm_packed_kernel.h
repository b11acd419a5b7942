#pragma once
// Products with prepacked NVFP4 weights for many tokens. The weights are the instruction's A operand, 64 rows
// a warpgroup: its threads decode fragments out of shared memory into registers; the tokens' BF16 values are
// B. A stage is a pair of fragments of 8 row tiles and the values of their 128 k, both by the copy engine.
// While one warpgroup decodes, the tensor cores work for the other. Operands may change sides without a
// change of bits.
//
// Where K is cut into chunks, the blocks of a cluster have the chunks of one tile: each a chain of its own,
// whose sums the blocks add at the end, chunks ascending, from the shared memory of all.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/fragments.h"
#include "backends/cuda/sm90/pipeline.h"
#include "backends/cuda/sm90/tensor_map.h"
#include "backends/cuda/sm90/wgmma.h"

namespace minite::cuda::sm90 {

struct PackedShape {
  int tokens, rows;  ///< M, N
  int tiles_tokens, tiles_rows;
  int chunk, chunks;            ///< pairs of fragments of a chunk; their number
  int chunks_of_block, blocks;  ///< of a cluster
};

inline constexpr int kWeightRows = 128, kPackedThreads = 3 * 128;
inline constexpr int kSumPitch = kWeightRows + 4;  ///< FP32 between tokens: writes of a warp meet all banks

inline constexpr int kRowTiles = kWeightRows / kFragmentRows;

/// Rings for kTokens tokens; kChunked: a block's sums of a chunk take room.
template <int kTokens, bool kChunked>
struct PackedLayout {
  static constexpr int kBoxBytes = kTokens * kDepth * 2, kWeightBytes = kRowTiles * kPairBytes;
  static constexpr int kBoxes = kTokens == 256 ? 5 : kTokens == 128 && !kChunked ? 8 : 6;
  static constexpr int kWeights = kTokens == 64 && !kChunked ? 4 : 3;  ///< stages of pairs
  static constexpr int kSlice = 32;  ///< tokens on the way out at once, where K has one chunk
  static constexpr int kBlocks = kTokens == 64 ? 2 : 1;  ///< of a multiprocessor
  /// `chunks`: of a block.
  static constexpr int bytes(int chunks) {
    return 1024 + kBoxes * kBoxBytes + kWeights * kWeightBytes +
           (kChunked ? chunks * kTokens : kSlice) * kSumPitch * 4 + 2 * (kBoxes + kWeights) * 8;
  }
};

/// Parts of a block's shared memory.
template <int kTokens, bool kChunked>
struct PackedMemory {
  using L = PackedLayout<kTokens, kChunked>;
  uint8_t *boxes, *weights;  ///< values of 64 k; a pair of fragments of each row tile
  Barrier *boxes_full, *boxes_empty, *weights_full, *weights_empty;
  float* sums;  ///< [chunk of the block][token][row], or the way out

  __device__ explicit PackedMemory(uint8_t* raw) : boxes(raw + (1024 - shared_address(raw) % 1024) % 1024) {
    weights = boxes + L::kBoxes * L::kBoxBytes;
    boxes_full = reinterpret_cast<Barrier*>(weights + L::kWeights * L::kWeightBytes);
    boxes_empty = boxes_full + L::kBoxes;
    weights_full = boxes_empty + L::kBoxes;
    weights_empty = weights_full + L::kWeights;
    sums = reinterpret_cast<float*>(weights_empty + L::kWeights);
  }
  /// Thread 0 sets the barriers up.
  __device__ void start(const CUtensorMap& x) const {
    if (threadIdx.x == 0) {
      prefetch_map(x);
      for (int s = 0; s < L::kBoxes; ++s) boxes_full[s].init(1), boxes_empty[s].init(2);
      for (int s = 0; s < L::kWeights; ++s) weights_full[s].init(1), weights_empty[s].init(32 * kRowTiles);
      fence_barrier_init();
    }
    __syncthreads();
  }
};

template <int kTokens, bool kChunked>
class PackedConsumer {
  using L = PackedLayout<kTokens, kChunked>;
  using Memory = PackedMemory<kTokens, kChunked>;
  using Registers = uint32_t[4][4];

 public:
  static constexpr int kSums = kTokens / 2;

  __device__ explicit PackedConsumer(const Memory& memory) : memory_(memory) {}

  /// One chain over the next `count` pairs. The two fragments of a pair have registers of their own, so that
  /// one is decoded while the other is multiplied.
  __device__ void chain(float (&d)[kSums], int count) {
    Registers a, b;
    int before = -1;
    for (int k = 0; k < count; ++k) {
      memory_.weights_full[weights_.stage].wait(weights_.parity);
      const uint32_t weights =
          shared_address(memory_.weights) + weights_.stage * L::kWeightBytes + warp_ * kPairBytes;
      const uint4 scales = load_shared(weights + kPairCodeBytes + lane_ / 4 * 16);
      const uint4 first = load_shared(weights + lane_ * 16), second = load_shared(weights + 512 + lane_ * 16);
      decode(a, first, scales.x, scales.y);
      multiply(d, a, k > 0, before);
      decode(b, second, scales.z, scales.w);
      memory_.weights_empty[weights_.stage].arrive();
      multiply(d, b, true, before);
      weights_.advance();
    }
    wgmma_wait<0>();
    if (threadIdx.x % 128 == 0) memory_.boxes_empty[before].arrive();
  }

 private:
  static __device__ void decode(Registers& a, const uint4& codes, uint32_t low, uint32_t high) {
    const StepScales two = step_scales(low), more = step_scales(high);
    decode_step<0>(a[0], codes.x, two);
    decode_step<1>(a[1], codes.y, two);
    decode_step<0>(a[2], codes.z, more);
    decode_step<1>(a[3], codes.w, more);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (uint32_t& x : a[step]) pin(x);
    }
  }

  /// Starts the four steps of a fragment with the next box of values, and gives the box before back.
  __device__ void multiply(float (&d)[kSums], Registers& a, bool keep, int& before) {
    memory_.boxes_full[boxes_.stage].wait(boxes_.parity);
    const uint32_t box = shared_address(memory_.boxes + boxes_.stage * L::kBoxBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
      wgmma<Major::k>(d, a[step], descriptor<Major::k>(box + step * kStepBytes<Major::k>),
                      keep || step > 0 ? Accumulator::keep : Accumulator::zero);
    wgmma_commit();
    wgmma_wait<1>();
    if (before >= 0 && threadIdx.x % 128 == 0) memory_.boxes_empty[before].arrive();
    before = boxes_.stage;
    boxes_.advance();
  }

  const Memory& memory_;
  Ring<L::kBoxes> boxes_;
  Ring<L::kWeights> weights_;
  int lane_ = threadIdx.x % 32, warp_ = static_cast<int>(threadIdx.x) / 32 - 4;
};

/// The copying thread's side.
template <int kTokens, bool kChunked>
class PackedProducer {
  using L = PackedLayout<kTokens, kChunked>;

 public:
  __device__ PackedProducer(const CUtensorMap& x, const Fragments& w,
                            const PackedMemory<kTokens, kChunked>& memory)
      : x_(x), w_(w), memory_(memory) {}

  /// Pairs of fragments [first, first + count) of tile (row_tile, token0).
  __device__ void run(int token0, int row_tile, int first, int count) {
    const int tile0 = row_tile * kRowTiles, tiles = min(kRowTiles, w_.row_tiles - tile0);
    const int64_t line = static_cast<int64_t>(w_.pairs) * kPairBytes;
    const std::byte* from = w_.data + tile0 * line + static_cast<int64_t>(first) * kPairBytes;
    for (int k = first; k < first + count; ++k, from += kPairBytes) {
      Barrier& full = memory_.weights_full[weights_.stage];
      uint8_t* to = memory_.weights + weights_.stage * L::kWeightBytes;
      memory_.weights_empty[weights_.stage].wait(weights_.parity ^ 1);
      full.arrive_expecting(static_cast<uint32_t>(tiles * kPairBytes));
      for (int i = 0; i < tiles; ++i) load_bytes(to + i * kPairBytes, from + i * line, kPairBytes, full);
      weights_.advance();
      box(k * kPairDepth, token0);
      box(k * kPairDepth + kDepth, token0);
    }
  }

 private:
  __device__ void box(int k, int token0) {
    Barrier& full = memory_.boxes_full[boxes_.stage];
    memory_.boxes_empty[boxes_.stage].wait(boxes_.parity ^ 1);
    full.arrive_expecting(L::kBoxBytes);
    load_box(memory_.boxes + boxes_.stage * L::kBoxBytes, x_, k, token0, full);
    boxes_.advance();
  }

  const CUtensorMap& x_;
  const Fragments& w_;
  const PackedMemory<kTokens, kChunked>& memory_;
  Ring<L::kBoxes> boxes_;
  Ring<L::kWeights> weights_;
};

/// Puts tokens [first, first + kCount) of this thread's sums at [token][row] of the tile.
template <int kCount, int kSums>
__device__ void put_tile(float* to, const float (&d)[kSums], int first) {
  const int thread = static_cast<int>(threadIdx.x) - 128, lane = thread % 32;
  float* place = to + 2 * (lane % 4) * kSumPitch + thread / 32 * kFragmentRows + lane / 4;
#pragma unroll
  for (int j = 0; j < kCount / 8; ++j) {
    const float* from = d + (first / 8 + j) * 4;
    float* p = place + 8 * j * kSumPitch;
    p[0] = from[0];
    p[kSumPitch] = from[1];
    p[8] = from[2];
    p[kSumPitch + 8] = from[3];
  }
}

/// Scales and bias of eight weight rows, columns of y.
struct RowFactors {
  float scale[8], bias[8];
  __device__ RowFactors(const DeviceEpilogue& epilogue, int rows, int n) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const bool inside = n + i < rows;
      scale[i] = epilogue.b == nullptr || !inside ? 1.0f : epilogue.b[(n + i) * epilogue.b_step];
      bias[i] = epilogue.bias == nullptr || !inside ? 0.0f : epilogue.bias[n + i];
    }
  }
};

/// Eight sums of one token, rows n .. n + 7, on their way to y.
__device__ inline void finish_rows(const DeviceEpilogue& epilogue, const PackedShape& shape, int token, int n,
                                   const RowFactors& factors, float (&y)[8]) {
  const int count = min(8, shape.rows - n);
  if (token >= shape.tokens || count <= 0) return;
  const float row = epilogue.a == nullptr ? 1.0f : epilogue.a[token * epilogue.a_step];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    y[i] = scaled(epilogue, y[i], row, factors.scale[i]);
    if (epilogue.bias != nullptr) y[i] = y[i] + factors.bias[i];
  }
  store_columns(epilogue, token, n, count, y);
}

__device__ inline void consumers_together() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

/// Writes a tile of 128 weight rows by kTokens tokens as columns of y, by slices.
template <int kTokens, int kSums>
__device__ void write_tile(const float (&d)[kSums], const DeviceEpilogue& epilogue, const PackedShape& shape,
                           float* out, int token0, int row0) {
  using L = PackedLayout<kTokens, false>;
  const int thread = static_cast<int>(threadIdx.x) - 128, c = thread % (kWeightRows / 8) * 8;
  const RowFactors factors(epilogue, shape.rows, row0 + c);
#pragma unroll
  for (int first = 0; first < kTokens; first += L::kSlice) {
    consumers_together();
    put_tile<L::kSlice>(out, d, first);
    consumers_together();
#pragma unroll
    for (int piece = 0; piece < L::kSlice * kWeightRows / 8 / 256; ++piece) {
      const int token = (thread + piece * 256) / (kWeightRows / 8);
      float y[8];
#pragma unroll
      for (int j = 0; j < 8; j += 4)
        *reinterpret_cast<float4*>(y + j) = *reinterpret_cast<const float4*>(out + token * kSumPitch + c + j);
      finish_rows(epilogue, shape, token0 + first + token, row0 + c, factors, y);
    }
  }
}

/// Four sums at `p` in block `rank` of the cluster.
__device__ inline float4 load_from(const float* p, int rank) {
  float4 x;
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5; ld.shared::cluster.v4.f32 {%0, %1, %2, "
      "%3}, "
      "[there]; }"
      : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
      : "r"(shared_address(p)), "r"(rank)
      : "memory");
  return x;
}

/// Adds the chunks of this block's share of the tile and writes it. All threads of the block.
template <int kTokens>
__device__ void write_chunks(const float* sums, const DeviceEpilogue& epilogue, const PackedShape& shape,
                             int rank, int token0, int row0) {
  constexpr int kPieces = kWeightRows / 8;
  const int used = min(kTokens, shape.tokens - token0) * kPieces;
  for (int i = rank * kPackedThreads + static_cast<int>(threadIdx.x); i < used;
       i += shape.blocks * kPackedThreads) {
    const int token = i / kPieces, c = i % kPieces * 8;
    float y[8];
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const float* from = sums + (chunk % shape.chunks_of_block * kTokens + token) * kSumPitch + c;
      const int owner = chunk / shape.chunks_of_block;
      const float4 low = load_from(from, owner), high = load_from(from + 4, owner);
      const float part[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int j = 0; j < 8; ++j) y[j] = chunk == 0 ? part[j] : y[j] + part[j];
    }
    finish_rows(epilogue, shape, token0 + token, row0 + c, RowFactors(epilogue, shape.rows, row0 + c), y);
  }
}

/// One chain spans K: persistent blocks walk the tiles.
template <int kTokens>
__global__ void __launch_bounds__(kPackedThreads, PackedLayout<kTokens, false>::kBlocks)
    packed_kernel(const __grid_constant__ CUtensorMap x, Fragments w, PackedShape shape,
                  DeviceEpilogue epilogue) {
  using L = PackedLayout<kTokens, false>;
  extern __shared__ uint8_t raw[];
  const PackedMemory<kTokens, false> memory(raw);
  memory.start(x);
  let_next_grid_start();
  wait_for_grid_before();
  const int tiles = shape.tiles_tokens * shape.tiles_rows, step = static_cast<int>(gridDim.x);
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x != 0) return;
    PackedProducer<kTokens, false> producer(x, w, memory);
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += step)
      producer.run(tile % shape.tiles_tokens * kTokens, tile / shape.tiles_tokens, 0, w.pairs);
    return;
  }
  take_registers<L::kBlocks == 2 ? 96 : 232>();
  PackedConsumer<kTokens, false> consumer(memory);
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += step) {
    float d[PackedConsumer<kTokens, false>::kSums];
    consumer.chain(d, w.pairs);
    write_tile<kTokens>(d, epilogue, shape, memory.sums, tile % shape.tiles_tokens * kTokens,
                        tile / shape.tiles_tokens * kWeightRows);
  }
}

/// A cluster has the chunks of one tile.
template <int kTokens>
__global__ void __launch_bounds__(kPackedThreads, 1)
    packed_chunks_kernel(const __grid_constant__ CUtensorMap x, Fragments w, PackedShape shape,
                         DeviceEpilogue epilogue) {
  extern __shared__ uint8_t raw[];
  const PackedMemory<kTokens, true> memory(raw);
  memory.start(x);
  let_next_grid_start();
  wait_for_grid_before();
  const int rank = static_cast<int>(blockIdx.x) % shape.blocks;
  const int tile = static_cast<int>(blockIdx.x) / shape.blocks;
  const int token0 = tile % shape.tiles_tokens * kTokens, row_tile = tile / shape.tiles_tokens;
  const int first = rank * shape.chunks_of_block, last = min(first + shape.chunks_of_block, shape.chunks);
  const auto length = [&](int chunk) { return min(shape.chunk, w.pairs - chunk * shape.chunk); };
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) {
      PackedProducer<kTokens, true> producer(x, w, memory);
      for (int c = first; c < last; ++c) producer.run(token0, row_tile, c * shape.chunk, length(c));
    }
  } else {
    PackedConsumer<kTokens, true> consumer(memory);
    for (int c = first; c < last; ++c) {
      float d[PackedConsumer<kTokens, true>::kSums];
      consumer.chain(d, length(c));
      put_tile<kTokens>(memory.sums + (c - first) * kTokens * kSumPitch, d, 0);
    }
  }
  cluster_sync();
  write_chunks<kTokens>(memory.sums, epilogue, shape, rank, token0, row_tile * kWeightRows);
  cluster_arrive();
  cluster_wait();  // nobody leaves whose sums are still read
}

}  // namespace minite::cuda::sm90
