#pragma once
// What the kernels for few tokens share: a warp and its 16 weight rows. For .cu files only.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/gemm_few.h"
#include "backends/cuda/sm90/mma.h"
#include "backends/cuda/sm90/pipeline.h"

namespace minite::cuda::sm90 {

/// Four 8 x 8 tiles of BF16; the address is that of row lane % 8 of tile lane / 8.
__device__ inline void load_tiles(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

/// A warp's 16 rows by 8 kTiles tokens: fragments come by bulk copies into a ring of the warp's own, kPairs
/// pairs a stage, from where each lane decodes its part.
template <int kTiles, int kStages, int kPairs>
class WarpRows {
 public:
  using Sums = float[kTiles][4];
  static constexpr int kStageDepth = kPairs * kPairDepth, kWeightBytes = kPairs * kPairBytes;

  /// The rows of `row_tile` over pairs [first, first + count) of fragments, then those of the tile `apart`
  /// tiles on, `rounds` in all. `ring`: kStages times kWeightBytes; `full`: kStages barriers of one arrival.
  /// Only fetches into the L2.
  __device__ WarpRows(const Fragments& w, int row_tile, int first, int count, uint8_t* ring, Barrier* full,
                      int rounds = 1, int apart = 0)
      : next_(w.data + (static_cast<int64_t>(min(row_tile, w.row_tiles - 1)) * w.pairs + first) * kPairBytes),
        skip_((static_cast<int64_t>(apart) * w.pairs) * kPairBytes -
              static_cast<int64_t>((count + kPairs - 1) / kPairs) * kWeightBytes),
        count_(count),
        left_(rounds * stages()),
        ring_(ring),
        full_(full) {
    if (lane_ == 0) fetch_into_l2(next_, static_cast<uint32_t>(min(count, kStages * kPairs) * kPairBytes));
  }
  /// Starts the copies of the first stages.
  __device__ void start() {
    for (int s = 0; s < kStages; ++s) fetch(s);
  }
  [[nodiscard]] __device__ int stages() const { return (count_ + kPairs - 1) / kPairs; }

  /// Adds stage s of the round, the next one, to d. `values`: where this lane's row of the tokens' values
  /// begins in shared memory (token lane % 8, plus 16 bytes times lane / 8); `step`: bytes to its row 8
  /// tokens on.
  template <Part kPart = Part::whole>
  __device__ void stage(Sums& d, int s, uint32_t values, uint32_t step) {
    full_[at_.stage].wait(at_.parity);
    const uint32_t weights = shared_address(ring_) + at_.stage * kWeightBytes;
    const int count = pairs(s);
    if (count == kPairs) {
      PairCodes codes = load_codes(weights);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const PairCodes now = codes;
        if (p + 1 < kPairs) codes = load_codes(weights + (p + 1) * kPairBytes);
        multiply<kPart>(d, now, values + p * kPairDepth * 2, step);
      }
    } else {
#pragma unroll 1
      for (int p = 0; p < count; ++p)
        multiply<kPart>(d, load_codes(weights + p * kPairBytes), values + p * kPairDepth * 2, step);
    }
    __syncwarp();
    fetch(at_.stage);
    at_.advance();
  }

 private:
  [[nodiscard]] __device__ int pairs(int stage) const { return min(kPairs, count_ - stage * kPairs); }

  /// Starts the copy of the next stage, if there is one.
  __device__ void fetch(int slot) {
    if (lane_ != 0 || left_ == 0) return;
    const auto bytes = static_cast<uint32_t>(pairs(next_stage_) * kPairBytes);
    full_[slot].arrive_expecting(bytes);
    load_bytes(ring_ + slot * kWeightBytes, next_, bytes, full_[slot]);
    next_ += kWeightBytes;
    --left_;
    if (++next_stage_ < stages()) return;
    next_stage_ = 0;
    next_ += skip_;
  }

  /// A lane's part of a pair of fragments: fetched a pair ahead, so that decoding never waits for it.
  struct PairCodes {
    uint4 scales, first, second;
  };
  [[nodiscard]] __device__ PairCodes load_codes(uint32_t weights) const {
    return {load_shared(weights + kPairCodeBytes + lane_ / 4 * 16), load_shared(weights + lane_ * 16),
            load_shared(weights + 512 + lane_ * 16)};
  }
  /// The eight steps of a pair of fragments.
  template <Part kPart>
  __device__ void multiply(Sums& d, const PairCodes& codes, uint32_t values, uint32_t step) const {
    // Few tiles leave registers to fetch all values ahead.
    constexpr int kAhead = kTiles == 1 ? 4 : 1;
    const uint32_t words[8] = {codes.first.x,  codes.first.y,  codes.first.z,  codes.first.w,
                               codes.second.x, codes.second.y, codes.second.z, codes.second.w};
    const uint32_t scales[4] = {codes.scales.x, codes.scales.y, codes.scales.z, codes.scales.w};
    uint32_t x[kAhead][kTiles][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < kAhead && i % kAhead == 0; ++j) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) load_tiles(x[j][tile], values + (i + j) * 64 + tile * step);
      }
      const StepScales factors = step_scales(scales[i]);
      uint32_t a[2][4];
      decode_step<0, kPart>(a[0], words[2 * i], factors);
      decode_step<1, kPart>(a[1], words[2 * i + 1], factors);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const auto& values_of = x[i % kAhead][tile];
        mma(d[tile], a[0], values_of[0], values_of[1]);
        mma(d[tile], a[1], values_of[2], values_of[3]);
      }
    }
  }

  int lane_ = threadIdx.x % 32;
  const std::byte* next_;  ///< what is copied next, of stage next_stage_
  int64_t skip_;           ///< bytes from the end of a round to the next one's begin
  int count_, next_stage_ = 0, left_;
  uint8_t* ring_;
  Barrier* full_;
  Ring<kStages> at_;
};

/// The tokens' values of the k of a stage, in a ring that the warps of a block share.
template <int kStages, int kPairs>
struct ValueRing {
  static constexpr int kStageDepth = kPairs * kPairDepth;
  /// Bytes between tokens in a stage: 16-byte pieces of 8 tokens fall on all banks once.
  static constexpr int kPitch = 2 * kStageDepth + 16;

  /// All stages of `pairs` pairs of fragments, `rounds` times: by one warp, a lane a token. (One lane for all
  /// tokens is slower than the warps that multiply: 30 instructions a copy.) A stage of the ring takes
  /// `bytes` of `ring`; `full` and `empty` are its barriers.
  static __device__ void copy(const uint16_t* x, int64_t stride, int tokens, int pairs, uint8_t* ring,
                              int bytes, Barrier* full, Barrier* empty, int rounds = 1) {
    Ring<kStages> at;
    const int stages = (pairs + kPairs - 1) / kPairs, lane = static_cast<int>(threadIdx.x) % 32;
    const uint16_t* from = x + lane * stride;
    for (int i = 0, s = 0; i < rounds * stages; ++i, s = s + 1 == stages ? 0 : s + 1) {
      const auto row = static_cast<uint32_t>(min(kPairs, pairs - s * kPairs) * kPairDepth * 2);
      empty[at.stage].wait(at.parity ^ 1);
      if (lane == 0) full[at.stage].arrive_expecting(row * static_cast<uint32_t>(tokens));
      __syncwarp();
      for (int t = lane; t < tokens; t += 32)
        load_bytes(ring + at.stage * bytes + t * kPitch, from + (t - lane) * stride + s * kStageDepth, row,
                   full[at.stage]);
      at.advance();
    }
  }
};

/// One column tile of a row tile's sums on their way to y: rows from row0, tokens from token0 on; `kPart`:
/// the rows that are meant. (As a call it costs a local copy of the epilogue: 23 us instead of 13 at 19456 x
/// 2560.)
template <Part kPart = Part::whole>
__device__ inline void finish(const DeviceEpilogue& epilogue, int rows, int tokens, float4 d, int row0,
                              int token0) {
  constexpr int kFirst = kPart == Part::lower ? 1 : 0, kLast = kPart == Part::upper ? 1 : 2;
  const int lane = static_cast<int>(threadIdx.x) % 32, n0 = row0 + lane / 4, t0 = token0 + lane % 4 * 2;
  const float sums[2][2] = {{d.x, d.y}, {d.z, d.w}};
  float row[2], column[2], bias[2];  // fetched together, so that the latencies are one
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int n = n0 + 8 * i, token = t0 + i;
    row[i] = epilogue.a == nullptr || token >= tokens ? 1.0f : epilogue.a[token * epilogue.a_step];
    column[i] = epilogue.b == nullptr || n >= rows ? 1.0f : epilogue.b[n * epilogue.b_step];
    bias[i] = epilogue.bias == nullptr || n >= rows ? 0.0f : epilogue.bias[n];
  }
#pragma unroll
  for (int i = kFirst; i < kLast; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int n = n0 + 8 * i, token = t0 + j;
      if (n >= rows || token >= tokens) continue;
      float y = scaled(epilogue, sums[i][j], row[j], column[i]);
      if (epilogue.bias != nullptr) y = y + bias[i];
      put(epilogue, token, n, y);
    }
  }
}

/// Adds this lane's four sums of each chunk, ascending, `stride` bytes apart.
__device__ inline float4 add_chunks(const uint8_t* from, int chunks, int stride) {
  float4 sum = *reinterpret_cast<const float4*>(from);
  for (int c = 1; c < chunks; ++c) {
    const float4 part = *reinterpret_cast<const float4*>(from + c * stride);
    sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
  }
  return sum;
}

}  // namespace minite::cuda::sm90
