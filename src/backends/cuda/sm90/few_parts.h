#pragma once
// What the kernels for few tokens share: a warp and its 16 weight rows. For .cu files only.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/gemm_few.h"
#include "backends/cuda/sm90/mma.h"
#include "backends/cuda/sm90/pipeline.h"

namespace minite::cuda::sm90 {

inline constexpr int kPairs = 2;  ///< of fragments in a stage
inline constexpr int kStageDepth = kPairs * kPairDepth, kWeightBytes = kPairs * kPairBytes;

/// Four 8 x 8 tiles of BF16; the address is that of row lane % 8 of tile lane / 8.
__device__ inline void load_tiles(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

/// A warp's 16 rows by 8 kTiles tokens: fragments come by bulk copies into a ring of the warp's own, from
/// where each lane decodes its part.
template <int kTiles, int kStages>
class WarpRows {
 public:
  using Sums = float[kTiles][4];

  /// The rows of `row_tile` over pairs [first, first + count) of fragments. `ring`: kStages times
  /// kWeightBytes; `full`: kStages barriers of one arrival. Only fetches into the L2.
  __device__ WarpRows(const Fragments& w, int row_tile, int first, int count, uint8_t* ring, Barrier* full)
      : from_(w.data + (static_cast<int64_t>(min(row_tile, w.row_tiles - 1)) * w.pairs + first) * kPairBytes),
        count_(count),
        ring_(ring),
        full_(full) {
    if (lane_ == 0) fetch_into_l2(from_, static_cast<uint32_t>(min(count, kStages * kPairs) * kPairBytes));
  }
  /// Starts the copies of the first stages.
  __device__ void start() {
    for (int s = 0; s < kStages; ++s) fetch(s, s);
  }
  [[nodiscard]] __device__ int stages() const { return (count_ + kPairs - 1) / kPairs; }

  /// Adds stage s, the next one, to d. `values`: where this lane's row of the tokens' values begins in shared
  /// memory (token lane % 8, plus 16 bytes times lane / 8); `step`: bytes to its row 8 tokens on.
  __device__ void stage(Sums& d, int s, uint32_t values, uint32_t step) {
    full_[at_.stage].wait(at_.parity);
    const uint32_t weights = shared_address(ring_) + at_.stage * kWeightBytes;
    if (pairs(s) == kPairs) {
#pragma unroll
      for (int p = 0; p < kPairs; ++p)
        multiply(d, weights + p * kPairBytes, values + p * kPairDepth * 2, step);
    } else {
      multiply(d, weights, values, step);
    }
    __syncwarp();
    fetch(s + kStages, at_.stage);
    at_.advance();
  }

 private:
  [[nodiscard]] __device__ int pairs(int stage) const { return min(kPairs, count_ - stage * kPairs); }

  /// Starts the copy of stage s, if there is one.
  __device__ void fetch(int s, int slot) {
    if (lane_ != 0 || s >= stages()) return;
    const auto bytes = static_cast<uint32_t>(pairs(s) * kPairBytes);
    full_[slot].arrive_expecting(bytes);
    load_bytes(ring_ + slot * kWeightBytes, from_ + static_cast<int64_t>(s) * kWeightBytes, bytes,
               full_[slot]);
  }

  /// The eight steps of a pair of fragments.
  __device__ void multiply(Sums& d, uint32_t weights, uint32_t values, uint32_t step) const {
    const uint4 scales = load_shared(weights + kPairCodeBytes + lane_ / 4 * 16);
    const uint4 first = load_shared(weights + lane_ * 16), second = load_shared(weights + 512 + lane_ * 16);
    two_steps(d, first.x, first.y, scales.x, values, step);
    two_steps(d, first.z, first.w, scales.y, values + 64, step);
    two_steps(d, second.x, second.y, scales.z, values + 128, step);
    two_steps(d, second.z, second.w, scales.w, values + 192, step);
  }
  static __device__ void two_steps(Sums& d, uint32_t first, uint32_t second, uint32_t scales, uint32_t values,
                                   uint32_t step) {
    const StepScales factors = step_scales(scales);
    uint32_t a[2][4];
    decode_step<0>(a[0], first, factors);
    decode_step<1>(a[1], second, factors);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      uint32_t x[4];
      load_tiles(x, values + tile * step);
      mma(d[tile], a[0], x[0], x[1]);
      mma(d[tile], a[1], x[2], x[3]);
    }
  }

  int lane_ = threadIdx.x % 32;
  const std::byte* from_;
  int count_;
  uint8_t* ring_;
  Barrier* full_;
  Ring<kStages> at_;
};

/// One column tile of a row tile's sums on their way to y: rows from row0, tokens from token0 on.
/// (As a call it costs a local copy of the epilogue: 23 us instead of 13 at 19456 x 2560.)
__device__ inline void finish(const DeviceEpilogue& epilogue, int rows, int tokens, float4 d, int row0,
                              int token0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float sums[4] = {d.x, d.y, d.z, d.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int n = row0 + lane / 4 + i / 2 * 8, token = token0 + lane % 4 * 2 + i % 2;
    if (n < rows && token < tokens) store(epilogue, token, n, sums[i]);
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
