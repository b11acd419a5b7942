#pragma once
// The element and scale encoders of formats/codecs.h on sixteen lanes, bit for bit.
#include "backends/ref/quantize.h"
#include "backends/simd/decode.h"

namespace minite::simd::MINITE_ISA {

MINITE_INLINE vi magnitude_bits(vf x) { return bits(x) & vi(0x7FFFFFFFu); }

/// Mantissa cut to kMantissa bits, nearest even, of magnitudes `u` below the format's largest; the scalar
/// twin is codec_detail::encode_magnitude.
template <int kMantissa, int kBias>
MINITE_INLINE vi encode_magnitude(vi u) {
  constexpr int kDrop = 23 - kMantissa;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
  const vf per_step(std::bit_cast<float>(static_cast<uint32_t>(126 + kBias + kMantissa) << 23));
  // The product is exact, so fma rounds where the scalar's addition does.
  const vi subnormal = bits(fma(from_bits(u), per_step, vf(0x1p23f))) - vi(0x4B000000u);
  const vi odd = shift_right<kDrop>(u) & vi(1u);
  const vi normal = shift_right<kDrop>(u + vi((1u << (kDrop - 1)) - 1) + odd) -
                    vi(static_cast<uint32_t>(127 - kBias) << kMantissa);
  return select(vi(kSmallestNormal) > u, subnormal, normal);
}

/// Lanes whose lowest 9 bits are the E2M1 codes 0..15 of numbers; -0 gives 0. NaN is not rounded here.
///
/// With p the power of two at or below max(|x|, 1), the grid around x has steps of p / 2 and code 2 log2(p) +
/// |x| / (p / 2). Adding p * 2^22 leaves that count in the low mantissa bits, rounded to nearest even; bit 22
/// upward is the exponent, which adds 2 log2(p) when shifted down. 107 makes the sum of constants 512.
MINITE_INLINE vi e2m1_low_bits(vf x) {
  const vi u = min_u32(magnitude_bits(x), vi(0x40C00000u));  // 6.0
  const vf p = from_bits(max_u32(u, vi(0x3F800000u)) & vi(0x7F800000u));
  const vi z = bits(fma(p, vf(0x1p22f + 107), from_bits(u)));
  return add_if(x < vf(0.0f), shift_right<22>(z) + z, vi(8u));
}

/// E2M1 codes 0..15; NaN and -0 give 0.
MINITE_INLINE vi encode_e2m1(vf x) { return select(is_nan(x), vi(0u), e2m1_low_bits(x) & vi(15u)); }

/// E4M3 bytes; every NaN is 0x7F.
MINITE_INLINE vi encode_e4m3(vf x) {
  const vi u = magnitude_bits(x);
  const vi code = encode_magnitude<3, 7>(min_u32(u, vi(0x43E00000u)));  // 448
  const vi sign = shift_right<24>(bits(x) & vi(0x80000000u));
  return select(is_nan(x), vi(0x7Fu), sign | code);
}

/// E8M0 bytes, rounded up, of magnitudes.
MINITE_INLINE vi encode_e8m0(vf magnitude) {
  const vi u = bits(magnitude);
  // Exponent plus one when any mantissa bit is set; a subnormal up to 2^-127 is byte 0.
  vi code = min_u32(shift_right<23>(u + vi(0x7FFFFFu)), vi(0xFEu));
  code = select(u > vi(0x400000u), code, vi(0u));
  return select(is_nan(magnitude), vi(0xFFu), code);
}

/// 2^(127 - b), the quantizer's factor; NaN for 0xFF.
MINITE_INLINE vf inverse_e8m0(vi b) {
  const vi normal = shift_left<23>(vi(254u) - b);
  const vi u = select(b > vi(0xFDu), vi(0x00400000u), normal);
  return from_bits(select(b > vi(0xFEu), vi(0x7FC00000u), u));
}

/// E2M1::encode_stochastic; u in 0..255.
MINITE_INLINE vi encode_e2m1_stochastic(vf x, vi u) {
  const vf m = from_bits(min_u32(magnitude_bits(x), vi(0x40C00000u)));
  const vf step = select(m < vf(2.0f), vf(0.5f), select(m < vf(4.0f), vf(1.0f), vf(2.0f)));
  const vf t = fma(to_float(u) * vf(0x1p-8f), step, m);
  vi code = shift_right<22>(bits(t)) - vi(252u);
  code = select(t < vf(1.0f), select(t < vf(0.5f), vi(0u), vi(1u)), code);
  code = select(t < vf(6.0f), code, vi(7u));
  const vi with_sign = code | select(x < vf(0.0f), vi(8u), vi(0u));
  return select(is_nan(x), vi(0u), with_sign);
}

/// Codes of a simulated element in bytes.
template <class Codec>
MINITE_INLINE vi encode_sim(vf x) {
  constexpr uint32_t kMaxBits = std::bit_cast<uint32_t>(Codec::kMax);
  const vi code =
      encode_magnitude<Codec::kMantissaBits, Codec::kBias>(min_u32(magnitude_bits(x), vi(kMaxBits)));
  const vi sign = shift_right<24>(bits(x) & vi(0x80000000u));
  return select(is_nan(x), vi(uint32_t{Codec::kNaN}), sign | code);
}

/// 2^(b - 127); NaN for 0xFF.
MINITE_INLINE vf decode_e8m0(vi b) { return inverse_e8m0(select(b > vi(0xFEu), b, vi(254u) - b)); }

/// min(x, FMAX) that keeps NaN.
MINITE_INLINE vf clamp_finite(vf x) { return min_or_second(vf(ref::kFloatMax), x); }

/// Scales of sixteen NVFP4 blocks.
struct Nvfp4Blocks {
  vi scale;   ///< E4M3 byte
  vf encode;  ///< multiplies x before the E2M1 rounding
};
/// d = E4M3(min(t, FMAX)) and its e.
MINITE_INLINE Nvfp4Blocks nvfp4_with_scale(vf t, vf s_dec) {
  const vi d = encode_e4m3(clamp_finite(t));
  return {d, clamp_finite(vf(1.0f) / (decode_e4m3(d) * s_dec))};
}

/// MXFP8 scale bytes of sixteen block amaxes.
MINITE_INLINE vi mxfp8_scales(vf amax) { return encode_e8m0(amax * vf(1.0f / 448.0f)); }

}  // namespace minite::simd::MINITE_ISA
