#pragma once
// Products with packed NVFP4 weights for many rows. The weights are the instruction's A operand, 64 rows a
// warpgroup, decoded in registers while the products of the step before run; the tokens' BF16 values come as
// B through the copy engine. Operands may change sides without a change of bits.
//
// A thread decodes for its rows r and r + 8 bytes t and t + 4 of each block (the k that the instruction wants
// of it, see mma.h), in the way of gemm_few.cu: sums are 2^-8 of what they should be.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/decode.h"
#include "backends/cuda/sm90/gemm_few.h"
#include "backends/cuda/sm90/pipeline.h"
#include "backends/cuda/sm90/tensor_map.h"
#include "backends/cuda/sm90/wgmma.h"

namespace minite::cuda::sm90 {

struct PackedShape {
  int tokens, rows;  ///< M, N
  int tiles_tokens, tiles_rows;
  int depth_blocks, chunk_blocks;  ///< of 64 k
};

inline constexpr int kWeightRows = 128, kPackedThreads = 3 * 128;

template <int kTokens>
struct PackedLayout {
  static constexpr int kValueBytes = kTokens * kDepth * 2, kCodeBytes = kWeightRows * kDepth / 2;
  static constexpr int kStageBytes = kValueBytes + kCodeBytes;
  static constexpr int kSlice = 32, kPitch = 68;  ///< tokens on the way out at once; FP32 between two of them
  static constexpr int kOutBytes = 2 * kSlice * kPitch * 4;
  static constexpr int kStages = kTokens == 256 ? 5 : kTokens == 128 ? 9 : 12;
  static constexpr int kBytes = 1024 + kStages * kStageBytes + kOutBytes + 2 * kStages * 8;
};

/// Depth blocks whose scales a thread loads at once: 16 bytes of a row.
inline constexpr int kScaleBlocks = 4;

template <int kTokens>
struct PackedConsumer {
  using L = PackedLayout<kTokens>;
  static constexpr int kRegisters = kTokens / 2;
  using Fragments = uint32_t[4][4];

  const FewOperands& in;
  const PackedShape& shape;
  uint8_t* ring;
  Barrier *full, *empty;
  int group;  ///< of 64 weight rows
  Ring<L::kStages> at{};
  int lane = threadIdx.x % 32, row = 64 * group + 16 * (static_cast<int>(threadIdx.x) / 32 % 4) + lane / 4;
  const uint8_t *upper = nullptr, *lower = nullptr;  ///< scales of this thread's two rows
  uint4 next_upper{}, next_lower{};                  ///< of the blocks to come

  /// `first`: the weight row that the block's tile starts at.
  __device__ void start(int first) {
    upper = in.scales + min(first + row, shape.rows - 1) * in.scale_stride;
    lower = in.scales + min(first + row + 8, shape.rows - 1) * in.scale_stride;
    fetch(0);
  }
  __device__ void fetch(int block) {
    if (block >= shape.depth_blocks) return;
    next_upper = __ldg(reinterpret_cast<const uint4*>(upper + block * 4));
    next_lower = __ldg(reinterpret_cast<const uint4*>(lower + block * 4));
  }

  /// 16 bytes of codes of a row of the stage.
  [[nodiscard]] __device__ uint4 codes(int r, int half) const {
    const uint8_t* stage = ring + at.stage * L::kStageBytes + L::kValueBytes;
    return *reinterpret_cast<const uint4*>(stage + r * (kDepth / 2) + (half ^ (r >> 2 & 1)) * 16);
  }

  /// The fragments of the stage's four steps; `u` and `l` are the two rows' scales of them.
  __device__ void decode(Fragments& a, uint32_t u, uint32_t l) const {
    const int t = lane % 4;
    // This thread converts the scales of step t; the others come from its neighbours.
    const float2 d = scale_pair((u >> 8 * t & 0xFFu) | (l >> 8 * t & 0xFFu) << 8, in.unsigned_scales);
    const uint32_t up = pair_of(d.x * kScaleGain), low = pair_of(d.y * kScaleGain);
    const uint32_t pick = pick_of(t);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 cu = codes(row, half), cl = codes(row + 8, half);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t(&to)[4] = a[2 * half + i];
        const uint32_t fu = __shfl_sync(0xFFFFFFFFu, up, 2 * half + i, 4),
                       fl = __shfl_sync(0xFFFFFFFFu, low, 2 * half + i, 4);
        uint32_t even = 0, odd = 0;
        decode_pairs(i == 0 ? __byte_perm(cu.x, cu.y, pick) : __byte_perm(cu.z, cu.w, pick), fu, even, odd);
        to[0] = __byte_perm(even, odd, 0x5410);
        to[2] = __byte_perm(even, odd, 0x7632);
        decode_pairs(i == 0 ? __byte_perm(cl.x, cl.y, pick) : __byte_perm(cl.z, cl.w, pick), fl, even, odd);
        to[1] = __byte_perm(even, odd, 0x5410);
        to[3] = __byte_perm(even, odd, 0x7632);
      }
    }
  }

  /// One stage: waits for it, decodes while the products of the stage before run, starts its own, and gives
  /// the stage before back.
  __device__ void block(float (&d)[kRegisters], Fragments& a, uint32_t u, uint32_t l, int& before) {
    full[at.stage].wait(at.parity);
    decode(a, u, l);
    const uint32_t stage = shared_address(ring + at.stage * L::kStageBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const Accumulator start = before < 0 && step == 0 ? Accumulator::zero : Accumulator::keep;
      wgmma<Major::k>(d, a[step], descriptor<Major::k>(stage + step * kStepBytes<Major::k>), start);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (before >= 0 && threadIdx.x % 128 == 0) empty[before].arrive();
    before = at.stage;
    at.advance();
  }

  /// One chain over blocks [first, first + count), count a multiple of kScaleBlocks.
  __device__ void chain(float (&d)[kRegisters], int first, int count) {
    Fragments a, b;
    int before = -1;
    for (int k = 0; k < count; k += kScaleBlocks) {
      const uint4 u = next_upper, l = next_lower;
      fetch(first + k + kScaleBlocks);
      block(d, a, u.x, l.x, before);
      block(d, b, u.y, l.y, before);
      block(d, a, u.z, l.z, before);
      block(d, b, u.w, l.w, before);
    }
    wgmma_wait<0>();
    if (threadIdx.x % 128 == 0) empty[before].arrive();
  }
};

/// Writes a warpgroup's 64 weight rows by kTokens tokens as columns of y.
template <int kTokens>
__device__ void write_packed(const float (&d)[kTokens / 2], const DeviceEpilogue& epilogue,
                             const PackedShape& shape, float* out, int token0, int row0) {
  using L = PackedLayout<kTokens>;
  const int thread = threadIdx.x % 128, lane = thread % 32, barrier = threadIdx.x / 128;
  const int row = 16 * (thread / 32) + lane / 4;
  const auto together = [barrier] { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); };
#pragma unroll
  for (int slice = 0; slice < kTokens / L::kSlice; ++slice) {
    together();
#pragma unroll
    for (int j = 0; j < L::kSlice / 8; ++j) {
      const float* from = d + (slice * (L::kSlice / 8) + j) * 4;
      float* to = out + (8 * j + 2 * (lane % 4)) * L::kPitch + row;
      to[0] = from[0];
      to[L::kPitch] = from[1];
      to[8] = from[2];
      to[L::kPitch + 8] = from[3];
    }
    together();
    const int token = token0 + slice * L::kSlice + thread / 4;
    const float row_scale =
        epilogue.a == nullptr || token >= shape.tokens ? 1.0f : epilogue.a[token * epilogue.a_step];
    if (token >= shape.tokens) continue;
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      const int c = thread % 4 * 16 + 8 * piece, count = min(8, shape.rows - row0 - c);
      if (count <= 0) continue;
      float y[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i >= count) break;
        const float column = epilogue.b == nullptr ? 1.0f : epilogue.b[(row0 + c + i) * epilogue.b_step];
        y[i] = scaled(epilogue, out[thread / 4 * L::kPitch + c + i], row_scale, column);
        if (epilogue.bias != nullptr) y[i] = y[i] + epilogue.bias[row0 + c + i];
      }
      store_columns(epilogue, token, row0 + c, count, y);
    }
  }
}

template <int kTokens, bool kChunked>
__global__ void __launch_bounds__(kPackedThreads, 1)
    packed_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap codes,
                  FewOperands in, PackedShape shape, DeviceEpilogue epilogue) {
  using L = PackedLayout<kTokens>;
  extern __shared__ uint8_t raw[];
  uint8_t* ring = raw + (1024 - shared_address(raw) % 1024) % 1024;
  float* out = reinterpret_cast<float*>(ring + L::kStages * L::kStageBytes);
  auto* full = reinterpret_cast<Barrier*>(reinterpret_cast<uint8_t*>(out) + L::kOutBytes);
  Barrier* empty = full + L::kStages;
  if (threadIdx.x == 0) {
    prefetch_map(x);
    prefetch_map(codes);
    for (int s = 0; s < L::kStages; ++s) {
      full[s].init(1);
      empty[s].init(2);
    }
    fence_barrier_init();
  }
  __syncthreads();
  const int tiles = shape.tiles_tokens * shape.tiles_rows;
  const auto token_of = [&](int tile) { return tile % shape.tiles_tokens * kTokens; };
  const auto row_of = [&](int tile) { return tile / shape.tiles_tokens * kWeightRows; };
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x != 0) return;
    Ring<L::kStages> at;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      for (int k = 0; k < shape.depth_blocks; ++k) {
        empty[at.stage].wait(at.parity ^ 1);
        full[at.stage].arrive_expecting(L::kStageBytes);
        uint8_t* to = ring + at.stage * L::kStageBytes;
        load_box(to, x, k * kDepth, token_of(tile), full[at.stage]);
        load_box(to + L::kValueBytes, codes, k * kDepth / 2, row_of(tile), full[at.stage]);
        at.advance();
      }
    }
    return;
  }
  take_registers<240>();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  PackedConsumer<kTokens> consumer{in, shape, ring, full, empty, group};
  float* slice = out + group * L::kSlice * L::kPitch;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    consumer.start(row_of(tile));
    float d[kTokens / 2];
    if constexpr (kChunked) {
      float total[kTokens / 2];
      for (int k = 0; k < shape.depth_blocks; k += shape.chunk_blocks) {
        consumer.chain(d, k, min(shape.chunk_blocks, shape.depth_blocks - k));
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) total[i] = k == 0 ? d[i] : total[i] + d[i];
      }
      write_packed<kTokens>(total, epilogue, shape, slice, token_of(tile), row_of(tile) + 64 * group);
    } else {
      consumer.chain(d, 0, shape.depth_blocks);
      write_packed<kTokens>(d, epilogue, shape, slice, token_of(tile), row_of(tile) + 64 * group);
    }
  }
}

}  // namespace minite::cuda::sm90
