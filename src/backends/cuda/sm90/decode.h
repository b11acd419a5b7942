#pragma once
// NVFP4 codes to BF16 pairs in registers, for the kernels that read packed weights. A code becomes BF16 by
// moving its sign to bit 15 and its other bits to 8..6, which makes it code * 2^-126 (E2M1's only subnormal,
// 0.5, is a subnormal there too); the block scale comes as d * 2^118. The product is exact and 2^-8 too
// small; the epilogue multiplies sums by kPackedGain. So the bits are those of a product of decoded values as
// long as no product of a weight and an activation is below 2^-118.
#include "backends/cuda/common/operand.h"
#include "backends/cuda/common/packed.h"

namespace minite::cuda::sm90 {

inline constexpr float kScaleGain = 0x1p118f;

/// A block scale as the factor of a pair of codes.
__device__ inline uint32_t pair_of(float x) { return pack_bf16(x, x); }

/// Two block scales, the first in the low byte: E4M3 by the processor's own conversion, where NaN stays NaN,
/// or ggml's, which have no sign, 0 for 0x7F and 480 for 0xFF.
__device__ inline float2 scale_pair(uint32_t bytes, bool unsigned_scales) {
  if (unsigned_scales) {
    const auto decode = [](uint32_t b) {
      return decode_scale(static_cast<uint8_t>(b), Stored::nvfp4_unsigned_scale);
    };
    return {decode(bytes & 0xFFu), decode(bytes >> 8 & 0xFFu)};
  }
  uint32_t halves = 0;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bytes)));
  float low = 0, high = 0;
  asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
      : "=f"(low), "=f"(high)
      : "r"(halves));
  return {low, high};
}

/// Selects bytes t and t + 4 of a block of codes (two words) as bytes 0 and 2.
__device__ inline uint32_t pick_of(int t) { return static_cast<uint32_t>(t) * 0x0101u + 0x0400u; }

/// The codes of bytes 0 and 2 of r times `factor`: low nibbles to `low`, high nibbles to `high`. Bits move by
/// multiplication, which other units do than masks.
__device__ inline void decode_pairs(uint32_t r, uint32_t factor, uint32_t& low, uint32_t& high) {
  low = multiply_bf16((r & 0x00070007u) * 64u + (r & 0x00080008u) * 4096u, factor);
  high = multiply_bf16((r & 0x00700070u) * 4u + (r & 0x00800080u) * 256u, factor);
}

}  // namespace minite::cuda::sm90
