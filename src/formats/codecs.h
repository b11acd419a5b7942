#pragma once
// Element codecs, constexpr on host and device: E2M1, E4M3, E5M2, E8M0.
//
//   e2m1  s ee m        0 .5 1 1.5 2 3 4 6, no inf, no NaN
//   e4m3  s eeee mmm    bias 7, max 448 (0x7E), subnormal step 2^-9, NaN 0x7F and 0xFF, no inf
//   e5m2  s eeeee mm    bias 15, max 57344 (0x7B), inf 0x7C, NaN above
//   e8m0  eeeeeeee      2^(b-127), NaN 0xFF
//
// Every encoder rounds to nearest even and saturates at the largest finite value.
#include <bit>
#include <cstdint>

#include "core/hd.h"

namespace minite {

namespace codec_detail {
/// |x| as an unsigned integer of `step`-sized units, nearest even; for |x| < 2^22 steps.
MINITE_HD constexpr uint32_t round_to_step(float magnitude, float per_step) {
  constexpr float kMagic = 8388608.0f;  // 2^23: the ulp of [2^23, 2^24) is 1
  return static_cast<uint32_t>(magnitude * per_step + kMagic - kMagic);
}
/// Encodes |x| into a format with `kMantissa` mantissa bits and bias `kBias`; the caller saturates.
template <int kMantissa, int kBias>
MINITE_HD constexpr uint32_t encode_magnitude(float magnitude) {
  const float smallest_normal = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias) << 23);
  if (magnitude < smallest_normal) {
    const float per_step = std::bit_cast<float>(static_cast<uint32_t>(127 - 1 + kBias + kMantissa) << 23);
    return round_to_step(magnitude, per_step);
  }
  constexpr int kDrop = 23 - kMantissa;
  uint32_t u = std::bit_cast<uint32_t>(magnitude);
  u += (1u << (kDrop - 1)) - 1 + ((u >> kDrop) & 1u);
  return (u >> kDrop) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
}
template <int kMantissa, int kBias>
MINITE_HD constexpr float decode_magnitude(uint32_t code) {
  if (code < (1u << kMantissa)) {
    const float step = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - kMantissa) << 23);
    return static_cast<float>(code) * step;
  }
  return std::bit_cast<float>((code + (static_cast<uint32_t>(127 - kBias) << kMantissa)) << (23 - kMantissa));
}
MINITE_HD constexpr bool is_nan(float x) { return (std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu) > 0x7F800000u; }
MINITE_HD constexpr float magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu);
}
MINITE_HD constexpr uint32_t sign_bit(float x) { return std::bit_cast<uint32_t>(x) >> 31; }
}  // namespace codec_detail

/// E2M1: 4 bits. Values below zero that round to zero keep their sign (0x8); -0.0 itself becomes 0x0 and
/// NaN becomes 0x0, as in Transformer Engine's reference.
struct E2M1 {
  static constexpr float kMax = 6.0f;
  MINITE_HD static constexpr uint8_t encode(float x) {
    if (codec_detail::is_nan(x)) return 0;
    const float m = codec_detail::magnitude(x);
    const uint32_t code = m >= 6.0f ? 7u : codec_detail::encode_magnitude<1, 1>(m);
    return static_cast<uint8_t>(code | (x < 0.0f ? 8u : 0u));
  }
  /// Stochastic rounding: up with probability u/256-steps of the distance to the code below; `u` in 0..255.
  MINITE_HD static constexpr uint8_t encode_stochastic(float x, uint32_t u) {
    if (codec_detail::is_nan(x)) return 0;
    const float m = codec_detail::magnitude(x) < 6.0f ? codec_detail::magnitude(x) : 6.0f;
    const float step = m < 2.0f ? 0.5f : m < 4.0f ? 1.0f : 2.0f;
    const float t = m + static_cast<float>(u) * 0x1p-8f * step;       // exact products: the bits of an fma
    const uint32_t down = (std::bit_cast<uint32_t>(t) >> 22) - 252u;  // mantissa cut to one bit, rebiased
    const uint32_t code = t >= 6.0f ? 7u : t >= 1.0f ? down : t >= 0.5f ? 1u : 0u;
    return static_cast<uint8_t>(code | (x < 0.0f ? 8u : 0u));
  }
  MINITE_HD static constexpr float decode(uint8_t code) {
    const float m = codec_detail::decode_magnitude<1, 1>(code & 7u);
    return (code & 8u) != 0 ? -m : m;
  }
};

/// E4M3 ("fn": finite, no infinities).
struct E4M3 {
  static constexpr float kMax = 448.0f;
  static constexpr uint8_t kNaN = 0x7F;
  MINITE_HD static constexpr uint8_t encode(float x) {
    const uint32_t sign = codec_detail::sign_bit(x) << 7;
    if (codec_detail::is_nan(x)) return static_cast<uint8_t>(sign | kNaN);
    const float m = codec_detail::magnitude(x);
    const uint32_t code = m >= kMax ? 0x7Eu : codec_detail::encode_magnitude<3, 7>(m);
    return static_cast<uint8_t>(sign | code);
  }
  MINITE_HD static constexpr float decode(uint8_t code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
    if ((code & 0x7Fu) == kNaN) return std::bit_cast<float>(sign | 0x7FC00000u);
    const float m = codec_detail::decode_magnitude<3, 7>(code & 0x7Fu);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(m) | sign);
  }
};

/// E4M3 as stored: nearest even, saturating; every NaN is 0x7F.
struct e4m3 {
  uint8_t bits = 0;

  constexpr e4m3() = default;
  constexpr explicit e4m3(float x) : bits(codec_detail::is_nan(x) ? E4M3::kNaN : E4M3::encode(x)) {}
  constexpr operator float() const { return E4M3::decode(bits); }
};
static_assert(sizeof(e4m3) == 1);

/// E5M2 (IEEE style: infinities and NaNs exist, the encoder saturates finite values).
struct E5M2 {
  static constexpr float kMax = 57344.0f;
  MINITE_HD static constexpr uint8_t encode(float x) {
    const uint32_t sign = codec_detail::sign_bit(x) << 7;
    if (codec_detail::is_nan(x)) return static_cast<uint8_t>(sign | 0x7Fu);
    const float m = codec_detail::magnitude(x);
    const uint32_t code = m >= kMax ? 0x7Bu : codec_detail::encode_magnitude<2, 15>(m);
    return static_cast<uint8_t>(sign | code);
  }
  MINITE_HD static constexpr float decode(uint8_t code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
    const uint32_t m = code & 0x7Fu;
    if (m > 0x7Cu) return std::bit_cast<float>(sign | 0x7FC00000u);
    if (m == 0x7Cu) return std::bit_cast<float>(sign | 0x7F800000u);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(codec_detail::decode_magnitude<2, 15>(m)) | sign);
  }
};

/// A simulated element in one byte: sign in bit 7, then E exponent and M mantissa bits below; every code but
/// NaN (0x7F) is finite. Saturates; NaN keeps no sign.
template <int kExponent, int kMantissa>
struct ExMy {
  static_assert(kExponent + kMantissa <= 6, "0x7F must stay free for NaN");
  static constexpr int kMantissaBits = kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kMaxCode = (1u << (kExponent + kMantissa)) - 1;
  static constexpr float kMax = codec_detail::decode_magnitude<kMantissa, kBias>(kMaxCode);
  static constexpr uint8_t kNaN = 0x7F;
  MINITE_HD static constexpr uint8_t encode(float x) {
    if (codec_detail::is_nan(x)) return kNaN;
    const float m = codec_detail::magnitude(x);
    const uint32_t code = m >= kMax ? kMaxCode : codec_detail::encode_magnitude<kMantissa, kBias>(m);
    return static_cast<uint8_t>(code | codec_detail::sign_bit(x) << 7);
  }
  MINITE_HD static constexpr float decode(uint8_t code) {
    if ((code & 0x7Fu) > kMaxCode) return std::bit_cast<float>(0x7FC00000u);
    const float m = codec_detail::decode_magnitude<kMantissa, kBias>(code & 0x7Fu);
    return (code & 0x80u) != 0 ? -m : m;
  }
};

/// E8M0: a power of two, 2^(b-127); 0xFF is NaN. The encoder rounds up (rceil), so that a block scaled
/// by it never saturates.
struct E8M0 {
  static constexpr uint8_t kNaN = 0xFF;
  MINITE_HD static constexpr uint8_t encode_round_up(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu;
    if (u > 0x7F800000u) return kNaN;
    if (u == 0x7F800000u) return 0xFE;
    const uint32_t exponent = u >> 23;
    const uint32_t mantissa = u & 0x7FFFFFu;
    // A subnormal up to 2^-127 is byte 0; above it, byte 1.
    if (exponent == 0) return mantissa > 0x400000u ? 1 : 0;
    const uint32_t up = exponent + (mantissa != 0 ? 1u : 0u);
    return static_cast<uint8_t>(up > 0xFEu ? 0xFEu : up);
  }
  MINITE_HD static constexpr float decode(uint8_t b) {
    if (b == kNaN) return std::bit_cast<float>(0x7FC00000u);
    if (b == 0) return std::bit_cast<float>(0x00400000u);  // 2^-127 is an FP32 subnormal
    return std::bit_cast<float>(static_cast<uint32_t>(b) << 23);
  }
  /// 2^(127-b), the factor that the quantizer multiplies with; for b = 0xFE it is 2^-127.
  MINITE_HD static constexpr float inverse(uint8_t b) {
    if (b == kNaN) return std::bit_cast<float>(0x7FC00000u);
    return decode(static_cast<uint8_t>(254 - b));
  }
};

}  // namespace minite
