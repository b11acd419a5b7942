#pragma once
// FP32 arithmetic as the peers' reference programs do it on x86, down to which NaN comes out: an invalid
// operation (0/0, 0*inf, inf/inf) gives the negative default NaN, a NaN operand passes, the first one first.
// Their bytes for NaN come from these bits.
#include <bit>
#include <cstdint>

#include "core/math.h"
#include "formats/codecs.h"
#include "minite/tensor.h"

namespace minite::peer {

inline constexpr uint32_t kInvalid = 0xFFC00000u;
inline constexpr uint32_t kQuiet = 0x00400000u;

/// `result` of an operation on a and b, with x86's NaN.
MINITE_INLINE float settle(float result, float a, float b) {
  if (!codec_detail::is_nan(result)) return result;
  const float from = codec_detail::is_nan(a) ? a : b;
  return std::bit_cast<float>(codec_detail::is_nan(from) ? std::bit_cast<uint32_t>(from) | kQuiet : kInvalid);
}
MINITE_INLINE float mul(float a, float b) { return settle(a * b, a, b); }
MINITE_INLINE float div(float a, float b) { return settle(a / b, a, b); }
/// max(low, min(high, x)) that keeps NaN.
MINITE_INLINE float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
MINITE_INLINE bool finite(float x) { return codec_detail::magnitude(x) <= 3.40282346638528859812e+38f; }

/// x rounded to IEEE binary16, nearest even; 65520 and above is infinite.
MINITE_INLINE float round_f16(float x) {
  const float m = codec_detail::magnitude(x);
  if (codec_detail::is_nan(x)) return x;
  const float half = m >= 65520.0f
                         ? std::bit_cast<float>(0x7F800000u)
                         : codec_detail::decode_magnitude<10, 15>(codec_detail::encode_magnitude<10, 15>(m));
  return codec_detail::sign_bit(x) != 0 ? -half : half;
}

/// torch's cast to float8_e4m3fn on the CPU up to 2.12: 464 rounds to 448, what is larger becomes NaN.
MINITE_INLINE uint8_t cast_e4m3(float x) {
  if (codec_detail::magnitude(x) <= 464.0f) return E4M3::encode(x);
  return static_cast<uint8_t>(E4M3::kNaN | codec_detail::sign_bit(x) << 7);
}
/// torch's cast back, whose NaN has the payload 0x700000.
MINITE_INLINE float widen_e4m3(uint8_t code) {
  if ((code & 0x7Fu) != E4M3::kNaN) return E4M3::decode(code);
  return std::bit_cast<float>(0x7FF00000u | static_cast<uint32_t>(code & 0x80u) << 24);
}

/// E2M1 code of a NaN whose bits go through integer rounding like a number's, as torchao does: exponent
/// rebias, half an ulp, shift, low byte.
MINITE_INLINE uint8_t e2m1_of_nan_bits(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), m = u & 0x7FFFFFFFu;
  const uint32_t code = (m - 0x3F000000u + 0x1FFFFFu + (m >> 22 & 1u)) >> 22;
  return static_cast<uint8_t>((code | u >> 31 << 3) & 0xFu);
}

/// Twice the values of E2M1 by code, as ggml keeps them; -0 is 0.
inline constexpr float kTwiceE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/// The code whose fl(kTwiceE2M1 * half) is nearest to x in FP32, ties to the lowest; 0 for NaN.
inline uint8_t nearest_e2m1(float x, float half) {
  uint8_t best = 0;
  float smallest = codec_detail::magnitude(0.0f - x);
  for (uint8_t i = 1; i < 16; ++i) {
    const float error = codec_detail::magnitude(kTwiceE2M1[i] * half - x);
    if (!(error < smallest)) continue;
    smallest = error;
    best = i;
  }
  return best;
}
/// ggml's unsigned E4M3 of a scale byte: 0x00 and 0x7F are 0, the top bit does not count otherwise.
inline float decode_ue4m3(uint8_t code) {
  return code == E4M3::kNaN ? 0.0f : codec_detail::decode_magnitude<3, 7>(code & 0x7Fu);
}

/// Which integer fl(log2 x), the FP32 logarithm, reaches: values close to a power of two round onto it.
struct Log2 {
  int floor, ceil;
};
/// For finite x > 0. With x = 2^k (1 + f), the logarithm rounds to k when f / ln 2 is at most half the
/// spacing of FP32 numbers beside k, and to k + 1 likewise from below.
constexpr Log2 rounded_log2(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x), shift = 0;
  if (u < 0x00800000u) {  // subnormal: bring the leading bit to the implicit one's place
    shift = static_cast<uint32_t>(std::countl_zero(u)) - 8;
    u <<= shift;
  }
  const int exponent = x < 0x1p-126f ? -126 - static_cast<int>(shift) : static_cast<int>(u >> 23) - 127;
  const uint32_t f = u & 0x7FFFFFu;
  if (f == 0) return {exponent, exponent};
  // floor(2^(j-1) ln 2): mantissa steps within half a spacing 2^(j-23).
  constexpr uint32_t kNear[9] = {0, 0, 1, 2, 5, 11, 22, 44, 88};
  const auto spacing = [](int k, bool toward_zero) {  // j of the spacing beside the integer k
    const uint32_t m = static_cast<uint32_t>(k < 0 ? -k : k);
    const int j = 31 - std::countl_zero(m);
    return toward_zero && std::has_single_bit(m) ? j - 1 : j;
  };
  const int up = exponent + 1;
  const int above = exponent == 0 ? -1 : spacing(exponent, exponent < 0);
  const int below = up == 0 ? -1 : spacing(up, up > 0);
  if (above >= 0 && f <= kNear[above]) return {exponent, exponent};
  if (below >= 0 && 0x800000u - f <= kNear[below + 1]) return {up, up};  // a step is half as large there
  return {exponent, up};
}

}  // namespace minite::peer
