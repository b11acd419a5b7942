#pragma once
// Blocks of what a quantizer reads, one block a thread. For .cu files only.
#include "backends/cuda/quantize/job.h"
#include "formats/codecs.h"

namespace minite::cuda {

/// Bit r: sign of element r before the Hadamard transform is minus (backends/ref/quantize.h).
inline constexpr uint32_t kHadamardSigns = 0xD7E8;

/// z of the `rht` formula in place: butterflies of strides 1, 2, 4, 8, then BF16.
__device__ inline void hadamard(float* v) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if ((kHadamardSigns >> i & 1u) != 0) v[i] = -v[i];
  }
#pragma unroll
  for (int stride = 1; stride < 16; stride *= 2) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if ((i & stride) != 0) continue;
      const float a = v[i], b = v[i + stride];
      v[i] = a + b;
      v[i + stride] = a - b;
    }
  }
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = static_cast<float>(bf16(v[i] * 0.25f));
}

__device__ inline float read(const DeviceSource& s, int64_t at) {
  return s.f32 ? static_cast<const float*>(s.x)[at] : static_cast<float>(static_cast<const bf16*>(s.x)[at]);
}

/// Elements [begin, begin + kBlock) of row r of the operand; zeros outside.
template <int kBlock>
__device__ inline void load_block(const DeviceSource& s, int64_t r, int64_t begin, float* v) {
  const int64_t step = s.columns ? s.stride : 1;
  int64_t at = s.columns ? begin * s.stride + r : r * s.stride + begin;
#pragma unroll
  for (int i = 0; i < kBlock; ++i, at += step) v[i] = r < s.rows && begin + i < s.cols ? read(s, at) : 0.0f;
  if (s.rotated) {
#pragma unroll
    for (int i = 0; i < kBlock; i += 16) hadamard(v + i);
  }
}

/// Bits of max |v|; NaN on top.
template <int kBlock>
__device__ inline uint32_t amax_bits(const float* v) {
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) most = max(most, __float_as_uint(v[i]) & 0x7FFFFFFFu);
  return most;
}

/// Which row and block a thread owns. In a tile, kBlock neighbouring lanes own its rows.
struct Place {
  int64_t r, b;
  bool inside;
};
template <int kBlock>
__device__ inline Place place(uint32_t item, const DeviceCodes& out, bool down) {
  const auto per_row = static_cast<uint32_t>(out.scale_stride);
  if (!down) return {item / per_row, item % per_row, item / per_row < out.rows};
  const uint32_t band = item / (kBlock * per_row), rest = item % (kBlock * per_row);
  const int64_t r = int64_t{band} * kBlock + rest % kBlock;
  return {r, rest / kBlock, r < out.rows};
}

/// The largest of the kBlock lanes of a tile.
template <int kBlock>
__device__ inline uint32_t tile_max(uint32_t value) {
#pragma unroll
  for (int lane = kBlock / 2; lane > 0; lane /= 2)
    value = max(value, __shfl_xor_sync(0xFFFFFFFFu, value, lane));
  return value;
}

/// Stores a block's codes, `bits` each, the even column of two first; bytes past the row's end are not
/// touched.
template <int kBits, int kBlock>
__device__ inline void store_codes(const DeviceCodes& out, int64_t r, int64_t begin, const uint8_t* code) {
  uint8_t* to = out.codes + r * out.code_stride + begin * kBits / 8;
#pragma unroll
  for (int i = 0; i < kBlock; i += 8 / kBits) {
    if (begin + i >= out.cols) break;
    const bool pair = kBits == 4 && begin + i + 1 < out.cols;
    to[i * kBits / 8] = pair ? static_cast<uint8_t>(code[i] | code[i + 8 / kBits - 1] << 4) : code[i];
  }
}

}  // namespace minite::cuda
