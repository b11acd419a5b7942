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
  static constexpr int kStageBytes = kTokens * kDepth * 2;
  static constexpr int kSlice = 32, kPitch = 68;  ///< tokens on the way out at once; FP32 between two of them
  static constexpr int kOutBytes = 2 * kSlice * kPitch * 4;
  static constexpr int kStages = kTokens == 256 ? 5 : 8;
  static constexpr int kBytes = 1024 + kStages * kStageBytes + kOutBytes + 2 * kStages * 8;
};

/// 64 k of a thread's two rows: codes and block scales.
struct PackedBlock {
  uint4 upper[2], lower[2];
  uint32_t upper_scales, lower_scales;
};

template <int kTokens, bool kChunked>
struct PackedConsumer {
  using L = PackedLayout<kTokens>;
  static constexpr int kRegisters = kTokens / 2;

  const FewOperands& in;
  const PackedShape& shape;
  uint8_t* ring;
  Barrier *full, *empty;
  Ring<L::kStages> at{};
  int lane = threadIdx.x % 32;
  const uint8_t *codes = nullptr, *scales = nullptr;  ///< of the upper row
  int64_t lower_codes = 0, lower_scales = 0;          ///< bytes to the lower row
  PackedBlock next{};

  __device__ void set_rows(int row) {
    const int upper = min(row + lane / 4, shape.rows - 1), lower = min(row + 8 + lane / 4, shape.rows - 1);
    codes = in.codes + upper * in.code_stride;
    scales = in.scales + upper * in.scale_stride;
    lower_codes = (lower - upper) * in.code_stride;
    lower_scales = (lower - upper) * in.scale_stride;
    fetch(0);
  }
  __device__ void fetch(int block) {
    if (block >= shape.depth_blocks) return;
    const auto* c = reinterpret_cast<const uint4*>(codes + block * (kDepth / 2));
    const auto* d = reinterpret_cast<const uint4*>(codes + lower_codes + block * (kDepth / 2));
    next.upper[0] = __ldg(c);
    next.upper[1] = __ldg(c + 1);
    next.lower[0] = __ldg(d);
    next.lower[1] = __ldg(d + 1);
    next.upper_scales = __ldg(reinterpret_cast<const uint32_t*>(scales + block * 4));
    next.lower_scales = __ldg(reinterpret_cast<const uint32_t*>(scales + lower_scales + block * 4));
  }

  /// The fragments of the four steps of the block that was fetched; starts the fetch of the block after.
  __device__ void decode(uint32_t (&a)[4][4], int block) {
    const PackedBlock now = next;
    fetch(block + 1);
    const int t = lane % 4;
    // This thread's scales are those of step t; the others come from its neighbours.
    const uint32_t both = (now.upper_scales >> 8 * t & 0xFFu) | (now.lower_scales >> 8 * t & 0xFFu) << 8;
    const float2 d = scale_pair(both, in.unsigned_scales);
    const uint32_t upper = pair_of(d.x * kScaleGain), lower = pair_of(d.y * kScaleGain);
    const uint32_t pick = static_cast<uint32_t>(t) * 0x1010u + 0x4000u;  // bytes t, t + 4 to bytes 1, 3
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint4 u = now.upper[step / 2], l = now.lower[step / 2];
      const uint32_t fu = __shfl_sync(0xFFFFFFFFu, upper, step, 4),
                     fl = __shfl_sync(0xFFFFFFFFu, lower, step, 4);
      uint32_t low = 0, high = 0;
      decode_pairs(step % 2 == 0 ? __byte_perm(u.x, u.y, pick) : __byte_perm(u.z, u.w, pick), fu, low, high);
      a[step][0] = __byte_perm(low, high, 0x5410);
      a[step][2] = __byte_perm(low, high, 0x7632);
      decode_pairs(step % 2 == 0 ? __byte_perm(l.x, l.y, pick) : __byte_perm(l.z, l.w, pick), fl, low, high);
      a[step][1] = __byte_perm(low, high, 0x5410);
      a[step][3] = __byte_perm(low, high, 0x7632);
    }
  }

  __device__ void multiply(float (&d)[kRegisters], const uint32_t (&a)[4][4], bool from_zero) {
    full[at.stage].wait(at.parity);
    const uint32_t stage = shared_address(ring + at.stage * L::kStageBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const Accumulator start = from_zero && step == 0 ? Accumulator::zero : Accumulator::keep;
      wgmma<Major::k>(d, a[step], descriptor<Major::k>(stage + step * kStepBytes<Major::k>), start);
    }
    wgmma_commit();
  }

  /// One chain over blocks [first, first + count).
  __device__ void chain(float (&d)[kRegisters], int first, int count) {
    const bool speaks = threadIdx.x % 128 == 0;
    uint32_t even[4][4], odd[4][4];
    decode(even, first);
    int before = -1;
    for (int k = 0; k < count; k += 2) {
      multiply(d, even, k == 0);
      wgmma_wait<1>();
      if (before >= 0 && speaks) empty[before].arrive();
      before = at.stage;
      at.advance();
      if (k + 1 == count) break;
      decode(odd, first + k + 1);
      multiply(d, odd, false);
      wgmma_wait<1>();
      if (speaks) empty[before].arrive();
      before = at.stage;
      at.advance();
      if (k + 2 < count) decode(even, first + k + 2);
    }
    wgmma_wait<0>();
    if (speaks) empty[before].arrive();
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
      to[0] = from[0] * kGain;
      to[L::kPitch] = from[1] * kGain;
      to[8] = from[2] * kGain;
      to[L::kPitch + 8] = from[3] * kGain;
    }
    together();
    const int token = token0 + slice * L::kSlice + thread / 4;
    for (int piece = 0; piece < 2; ++piece) {
      const int c = thread % 4 * 16 + 8 * piece;
      if (token < shape.tokens && row0 + c < shape.rows)
        store_columns(epilogue, token, row0 + c, min(8, shape.rows - row0 - c),
                      out + thread / 4 * L::kPitch + c);
    }
  }
}

template <int kTokens, bool kChunked>
__global__ void __launch_bounds__(kPackedThreads, 1)
    packed_kernel(const __grid_constant__ CUtensorMap x, FewOperands in, PackedShape shape,
                  DeviceEpilogue epilogue) {
  using L = PackedLayout<kTokens>;
  extern __shared__ uint8_t raw[];
  uint8_t* ring = raw + (1024 - shared_address(raw) % 1024) % 1024;
  float* out = reinterpret_cast<float*>(ring + L::kStages * L::kStageBytes);
  auto* full = reinterpret_cast<Barrier*>(reinterpret_cast<uint8_t*>(out) + L::kOutBytes);
  Barrier* empty = full + L::kStages;
  if (threadIdx.x == 0) {
    prefetch_map(x);
    for (int s = 0; s < L::kStages; ++s) {
      full[s].init(1);
      empty[s].init(2);
    }
    fence_barrier_init();
  }
  __syncthreads();
  const int tiles = shape.tiles_tokens * shape.tiles_rows;
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x != 0) return;
    Ring<L::kStages> at;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      for (int k = 0; k < shape.depth_blocks; ++k) {
        empty[at.stage].wait(at.parity ^ 1);
        full[at.stage].arrive_expecting(L::kStageBytes);
        load_box(ring + at.stage * L::kStageBytes, x, k * kDepth, tile % shape.tiles_tokens * kTokens,
                 full[at.stage]);
        at.advance();
      }
    }
    return;
  }
  take_registers<240>();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1, warp = threadIdx.x / 32 % 4;
  PackedConsumer<kTokens, kChunked> consumer{in, shape, ring, full, empty};
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int token0 = tile % shape.tiles_tokens * kTokens;
    const int row0 = tile / shape.tiles_tokens * kWeightRows + 64 * group;
    consumer.set_rows(row0 + 16 * warp);
    float d[kTokens / 2];
    float* slice = out + group * L::kSlice * L::kPitch;
    if constexpr (kChunked) {
      float total[kTokens / 2];
      for (int k = 0; k < shape.depth_blocks; k += shape.chunk_blocks) {
        consumer.chain(d, k, min(shape.chunk_blocks, shape.depth_blocks - k));
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) total[i] = k == 0 ? d[i] : total[i] + d[i];
      }
      write_packed<kTokens>(total, epilogue, shape, slice, token0, row0);
    } else {
      consumer.chain(d, 0, shape.depth_blocks);
      write_packed<kTokens>(d, epilogue, shape, slice, token0, row0);
    }
  }
}

}  // namespace minite::cuda::sm90
