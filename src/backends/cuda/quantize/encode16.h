#pragma once
// The fast encoder of NVFP4, one block of 16 BF16 values a thread. For .cu files only.
//
// The E2M1 code of m >= 0 is its rank among 0 .5 1 1.5 2 3 4 6. Added to a large number, m is rounded once,
// to the step of the sum: 2m + (2^24 - 6) counts half steps, which is right up to m = 2. m + (2^24 - 4)
// counts whole steps up to m = 4, where the sum reaches 2^24, and steps of 2 above: bit patterns go on by one
// a step. The smaller bit pattern is right everywhere, and an even pattern is an even code, so ties agree.
//
// That holds below m = 7. Signs come from x, as those of fl(x e) are the same unless the product underflows.
// A block whose amax reaches 7, or whose factor is below 2^-16 or NaN, is corrected first: magnitudes are cut
// at 6 (at 0 when the factor is NaN) and zeros lose their signs. -0 in x counts as +0: E2M1 has no code for
// it here.
#include "backends/cuda/common/packed.h"
#include "backends/cuda/common/reciprocal.h"
#include "backends/cuda/quantize/nvfp4.h"

namespace minite::cuda {

/// Sixteen values: word i holds elements 2i and 2i + 1. Or, across: word i holds element i of two blocks.
struct Words8 {
  uint32_t w[8];
};

__device__ inline uint32_t add_zero(uint32_t pair) {
  uint32_t y = 0;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(pair), "r"(0u));
  return y;
}

inline constexpr float kHalfSteps = 16777210.0f, kSteps = 16777212.0f;  // 2^24 - 6, 2^24 - 4
inline constexpr uint32_t kRankBase = 0x4B7FFFFAu;                      // bits of kHalfSteps
/// kRankBase + the magnitude's code, m < 7.
__device__ inline uint32_t rank_bits(float m) {
  return min(__float_as_uint(fmaf(m, 2.0f, kHalfSteps)), __float_as_uint(m + kSteps));
}
/// Eight codes of magnitudes below 7, element 0 in the lowest nibble.
__device__ inline uint32_t ranks(const float m[8]) {
  uint32_t word = rank_bits(m[7]);
#pragma unroll
  for (int i = 6; i >= 0; --i) word = word * 16 + rank_bits(m[i]);
  return word - kRankBase * 0x11111111u;
}
/// Sign bits of eight elements at bit 3 of their nibbles. Byte i of `even` holds the sign of element 2i at
/// its top, `odd` that of element 2i + 1.
__device__ inline uint32_t place_signs(uint32_t even, uint32_t odd) {
  return (even >> 4 & 0x08080808u) | (odd & 0x80808080u);
}
__device__ inline uint32_t signs_along(const uint32_t w[4]) {
  const uint32_t a = __byte_perm(w[0], w[1], 0x7351), b = __byte_perm(w[2], w[3], 0x7351);
  return place_signs(__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632));
}

/// Magnitudes of any size, and the signs of eight elements, for ranks().
__device__ inline void correct(float m[8], uint32_t& signs, float factor) {
  const float limit = factor == factor ? 6.0f : 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    m[i] = fminf(m[i], limit);  // the number of a number and a NaN
    if (m[i] == 0.0f) signs &= ~(8u << (4 * i));
  }
}

/// E4M3 byte by the processor's conversion, its value d, and fl(d S_dec), whose reciprocal is the factor.
struct FastScale {
  uint32_t byte;
  float value, divisor;
};
__device__ inline FastScale fast_scale(float t, float s_dec) {
  uint16_t byte = 0;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(byte) : "f"(0.0f), "f"(t));
  const float d = e4m3_value(byte);
  return {byte, d, d * s_dec};
}
/// Whether magnitudes stay below 7 and no product underflows.
__device__ inline bool easy(float amax, float factor) { return factor >= 0x1p-16f && amax * factor < 7.0f; }

/// The larger magnitudes of both halves, with signs that mean nothing; NaN on top.
__device__ inline uint32_t larger(uint32_t a, uint32_t b) {
  uint32_t y = 0;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
/// max |x| of each half of packed pairs.
__device__ inline uint32_t pair_max(const uint32_t* w, int count) {
  uint32_t most = w[0];
#pragma unroll
  for (int i = 1; i < count; ++i) most = larger(most, w[i]);
  return most & 0x7FFF7FFFu;
}
/// FP32 bits of the larger half.
__device__ inline uint32_t widest(uint32_t pair) { return max(pair << 16, pair & 0xFFFF0000u); }

/// How the elements of a block are rounded, and its scale chosen.
/// `magnitudes` and `squares` are the two errors of 4over6.
enum class Encoder : uint8_t { nearest, noise, magnitudes, squares };

/// fl(1 / divisor), at most the largest number.
__device__ inline float factor_of(float divisor) {
  const float factor = quick_reciprocal(divisor);
  return factor >= 0x1p-16f ? factor : clamp_finite(1.0f / divisor);
}
/// Codes of sixteen values x(0) .. x(15) of signs `signs`, where zeros are +0.
template <class Value>
__device__ inline uint2 encode_nearest(const Value& x, uint2 signs, float amax, float divisor) {
  float factor = quick_reciprocal(divisor);
  const bool quick = factor >= 0x1p-16f;
  if (!quick) factor = clamp_finite(1.0f / divisor);
  float m[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) m[i] = fabsf(x(i)) * factor;
  if (!(quick && amax * factor < 7.0f)) {
    correct(m, signs.x, factor);
    correct(m + 8, signs.y, factor);
  }
  return {ranks(m) + signs.x, ranks(m + 8) + signs.y};
}

/// The 16 random bytes of block `counter` of an output.
__device__ inline uint4 block_noise(const QuantizeJob& job, int64_t counter) {
  const auto w = Philox::generate(job.seed, static_cast<uint64_t>(counter), job.stream);
  return {w[0], w[1], w[2], w[3]};
}
/// m plus byte k of `noise` 256ths of the step above it. 2^14 + u / 512 is a number whose
/// lowest mantissa bits are u; twice the step is the power of two below m, or 1.
__device__ inline float add_noise(float m, uint32_t noise, int k) {
  const float u =
      __uint_as_float(__byte_perm(noise, 0x46800000u, 0x7650u | static_cast<uint32_t>(k))) - 16384.0f;
  const float twice = __uint_as_float(__float_as_uint(fmaxf(m, 1.0f)) & 0x7F800000u);
  return fmaf(u, twice, m);
}
/// rank_bits() with t rounded down, and the last code from 6 on, whatever is above. Patterns of a NaN are
/// large.
__device__ inline uint32_t floor_bits(float t) {
  return __vimin3_u32(__float_as_uint(__fmaf_rd(t, 2.0f, kHalfSteps)), __float_as_uint(__fadd_rd(t, kSteps)),
                      kRankBase + 7);
}
__device__ inline uint32_t noisy_ranks(const float m[8], uint32_t lower, uint32_t upper) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) word = word * 16 + floor_bits(add_noise(m[i], i < 4 ? lower : upper, i % 4));
  return word - kRankBase * 0x11111111u;
}
/// encode_nearest() with stochastic rounding.
template <class Value>
__device__ inline uint2 encode_noisy(const Value& x, uint2 signs, float divisor, const uint4& noise) {
  const float factor = factor_of(divisor);
  float m[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) m[i] = fabsf(x(i)) * factor;
  if (!(factor >= 0x1p-16f)) {
    correct(m, signs.x, factor);
    correct(m + 8, signs.y, factor);
  }
  return {noisy_ranks(m, noise.x, noise.y) + signs.x, noisy_ranks(m + 8, noise.z, noise.w) + signs.y};
}

/// Element i of a block along a row.
__device__ inline float element(const Words8& x, int i) {
  return i % 2 == 0 ? low(x.w[i / 2]) : high(x.w[i / 2]);
}
__device__ inline uint2 signs_of(const Words8& x) { return {signs_along(x.w), signs_along(x.w + 4)}; }
/// Signs of eight elements of two blocks side by side: word k holds element k of both.
__device__ inline void signs_across(const uint32_t* w, uint32_t& lower, uint32_t& upper) {
  const uint32_t a = __byte_perm(w[0], w[2], 0x7351), b = __byte_perm(w[4], w[6], 0x7351);
  const uint32_t c = __byte_perm(w[1], w[3], 0x7351), d = __byte_perm(w[5], w[7], 0x7351);
  lower = place_signs(__byte_perm(a, b, 0x5410), __byte_perm(c, d, 0x5410));
  upper = place_signs(__byte_perm(a, b, 0x7632), __byte_perm(c, d, 0x7632));
}
/// Where a block's results go. `decoded` is nullptr when nobody wants them.
struct BlockPlace {
  uint8_t *scale, *codes;
  bf16* decoded;
  /// The block `blocks` further in the row.
  __device__ BlockPlace at(int64_t blocks) const {
    return {scale + blocks, codes + 8 * blocks, decoded == nullptr ? nullptr : decoded + 16 * blocks};
  }
};
__device__ inline BlockPlace block_place(const QuantizeJob& job, int64_t r, int64_t b) {
  return BlockPlace{job.out.scales + r * job.out.scale_stride, job.out.codes + r * job.out.code_stride,
                    job.decoded == nullptr ? nullptr : job.decoded + r * job.decoded_stride}
      .at(b);
}
__device__ inline void store_decoded(bf16* to, float scale, uint2 codes) {
  uint32_t v[8];
  decode_e2m1(codes.x, v);
  decode_e2m1(codes.y, v + 4);
  const uint32_t both = pack_bf16(scale, scale);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = multiply_bf16(v[i], both);
  auto* vectors = reinterpret_cast<uint4*>(to);
  vectors[0] = {v[0], v[1], v[2], v[3]};
  vectors[1] = {v[4], v[5], v[6], v[7]};
}
__device__ inline void store_block(const BlockPlace& to, const FastScale& scale, uint2 codes) {
  *to.scale = static_cast<uint8_t>(scale.byte);
  *reinterpret_cast<uint2*>(to.codes) = codes;
  if (to.decoded != nullptr) store_decoded(to.decoded, scale.value, codes);
}

/// x with +0 for -0.
__device__ inline Words8 plus_zeros(const Words8& x) {
  Words8 y;
#pragma unroll
  for (int i = 0; i < 8; ++i) y.w[i] = add_zero(x.w[i]);
  return y;
}
/// Quantizes a block to nearest; `sixth` is fl(S_enc * fl(1/6)).
__device__ inline void finish_block(const BlockPlace& to, const Words8& x, float sixth, float s_dec) {
  const float amax = __uint_as_float(widest(pair_max(x.w, 8)));
  const FastScale scale = fast_scale(amax * sixth, s_dec);
  const Words8 y = plus_zeros(x);
  store_block(to, scale,
              encode_nearest([&](int i) { return element(y, i); }, signs_of(y), amax, scale.divisor));
}
/// The same with stochastic rounding, of block `counter`.
__device__ inline void finish_noisy_block(const QuantizeJob& job, const BlockPlace& to, int64_t counter,
                                          const Words8& x, float sixth, float s_dec) {
  const float amax = __uint_as_float(widest(pair_max(x.w, 8)));
  const FastScale scale = fast_scale(amax * sixth, s_dec);
  const Words8 y = plus_zeros(x);
  store_block(to, scale,
              encode_noisy([&](int i) { return element(y, i); }, signs_of(y), scale.divisor,
                           block_noise(job, counter)));
}

}  // namespace minite::cuda
