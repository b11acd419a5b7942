#include "formats/mx_rules.h"

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "formats/peer_math.h"

namespace minite {
namespace {

using codec_detail::is_nan;
using codec_detail::magnitude;
using codec_detail::sign_bit;

constexpr uint32_t kInfinity = 0x7F800000u;
constexpr uint8_t kOne = 127;  // E8M0 of 1

/// The block of a scale byte, whose elements meet 2^(127 - byte).
MxBlock of_byte(uint8_t scale) { return {scale, E8M0::inverse(scale)}; }
/// The block of exponent e - max_exponent, clamped to E8M0's range.
MxBlock of_exponent(int e, const MxElement& element) {
  return of_byte(static_cast<uint8_t>(std::clamp(e - element.max_exponent, -127, 127) + 127));
}
int exponent_of(uint32_t bits) { return static_cast<int>(bits >> 23) - 127; }

// --- blocks ---
MxBlock te_block(float amax, const MxElement& element) {
  return of_byte(E8M0::encode_round_up(amax * (1.0f / element.max)));
}
MxBlock rceil_block(float amax, const MxElement& element) {
  return peer::finite(amax) ? te_block(amax, element) : of_byte(E8M0::kNaN);
}
/// The power of two of an amax given as bits; NaN when these are not finite.
MxBlock floor_of(uint32_t bits, const MxElement& element) {
  return bits >= kInfinity ? of_byte(E8M0::kNaN) : of_exponent(exponent_of(bits), element);
}
MxBlock floor_block(float amax, const MxElement& element) {
  return floor_of(std::bit_cast<uint32_t>(amax), element);
}
/// Half an ulp of the element's mantissa, then floor.
MxBlock even_block(float amax, const MxElement& element) {
  return floor_of(std::bit_cast<uint32_t>(amax) + (1u << (22 - element.mantissa)), element);
}
MxBlock ceil_block(float amax, const MxElement& element) {
  const uint32_t bits = std::bit_cast<uint32_t>(amax);
  if (bits >= kInfinity) return of_byte(E8M0::kNaN);
  return of_exponent(exponent_of(bits) + ((bits & 0x7FFFFFu) != 0 ? 1 : 0), element);
}
/// even with E2M1's half ulp for every element. What overflows has an infinite scale, stored as the byte of
/// 1, and codes of 0.
MxBlock ct_block(float amax, const MxElement& element) {
  const uint32_t bits = std::bit_cast<uint32_t>(amax) + (1u << 21);
  return bits >= kInfinity ? MxBlock{kOne, 0.0f} : of_exponent(exponent_of(bits), element);
}
/// ceil(fl(log2(fl(a / max)))).
MxBlock modelopt_block(float amax, const MxElement& element) {
  const float t = amax / element.max;
  if (!peer::finite(t)) return of_byte(is_nan(t) ? E8M0::kNaN : uint8_t{254});
  if (t == 0.0f) return of_byte(0);
  return of_byte(static_cast<uint8_t>(std::clamp(peer::rounded_log2(t).ceil, -127, 127) + 127));
}
/// floor(fl(log2 a)); too large is NaN.
MxBlock microxcaling_block(float amax, const MxElement& element) {
  if (!peer::finite(amax)) return of_byte(E8M0::kNaN);
  return of_exponent(amax == 0.0f ? -127 : peer::rounded_log2(amax).floor, element);
}
/// Half of a block's scale, 2^(byte - 128); every byte is a number.
float ggml_half(uint8_t scale) {
  return scale == 0 ? 0x1p-128f : E8M0::decode(static_cast<uint8_t>(scale - 1));
}
/// The byte of floor(fl(log2 a)), which wraps below 0.
MxBlock ggml_block(float amax, const MxElement& element) {
  if (amax == 0.0f) return {0, ggml_half(0)};
  const int exponent = peer::finite(amax) ? peer::rounded_log2(amax).floor : 128;
  const auto byte = static_cast<uint8_t>(exponent - element.max_exponent + 127);
  return {byte, ggml_half(byte)};
}

// --- codes ---
uint8_t te_code(Element element, float x, float factor) {
  const float y = x * factor;
  if (element == Element::e2m1) return E2M1::encode(y);
  if (is_nan(y))
    return E4M3::kNaN;  // one byte for every NaN: a product's sign depends on its operands' order
  return element == Element::e4m3 ? E4M3::encode(y) : E5M2::encode(y);
}
/// NaN keeps the sign it has on x86, E2M1 zeros theirs.
uint8_t torchao_code(Element element, float x, float factor) {
  const float y = peer::mul(x, is_nan(factor) ? std::bit_cast<float>(kInfinity + 1) : factor);
  if (element == Element::e4m3) return E4M3::encode(y);
  if (element == Element::e5m2) return E5M2::encode(y);
  if (is_nan(y)) return peer::e2m1_of_nan_bits(y);
  return static_cast<uint8_t>(E2M1::encode(magnitude(y)) | sign_bit(y) << 3);
}
/// Where midpoints between E2M1 values go.
enum class Ties : uint8_t { down, up };
uint32_t e2m1_with_ties(float m, Ties ties) {
  constexpr std::array<float, 7> kMidpoints = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  uint32_t code = 0;
  for (const float tie : kMidpoints) code += m > tie || (m == tie && ties == Ties::up) ? 1u : 0u;
  return code;
}
/// E2M1 ties go to zero, and zeros are negative.
uint8_t modelopt_code(Element element, float x, float factor) {
  const float y = x * factor;
  if (element != Element::e2m1) return te_code(element, x, factor);
  return static_cast<uint8_t>(e2m1_with_ties(magnitude(y), Ties::down) | (y <= 0.0f ? 8u : 0u));
}
/// |y| below the largest value, half up.
template <int kMantissa, int kBias>
uint32_t encode_half_up(float m) {
  if (m < std::bit_cast<float>(static_cast<uint32_t>(128 - kBias) << 23)) {
    const float twice = std::bit_cast<float>(static_cast<uint32_t>(127 + kBias + kMantissa) << 23);
    return (static_cast<uint32_t>(m * twice) + 1) / 2;
  }
  const uint32_t half_steps = std::bit_cast<uint32_t>(m) >> (22 - kMantissa);
  return (half_steps - (static_cast<uint32_t>(127 - kBias) << (kMantissa + 1)) + 1) / 2;
}
uint8_t microxcaling_code(Element element, float x, float factor) {
  const float y = peer::mul(x, factor), m = magnitude(y);
  const uint32_t sign = sign_bit(y);
  if (element == Element::e2m1) return static_cast<uint8_t>(e2m1_with_ties(m, Ties::up) | sign << 3);
  if (is_nan(y)) return static_cast<uint8_t>(sign << 7 | 0x7Fu);
  const uint32_t code = element == Element::e4m3 ? (m >= E4M3::kMax ? 0x7Eu : encode_half_up<3, 7>(m))
                                                 : (m >= E5M2::kMax ? 0x7Bu : encode_half_up<2, 15>(m));
  return static_cast<uint8_t>(code | sign << 7);
}
uint8_t ggml_code(Element, float x, float half) { return peer::nearest_e2m1(x, half); }

// --- decode ---
float decode(Element element, uint8_t code, uint8_t scale) {
  const float d = E8M0::decode(scale);
  return d * (element == Element::e2m1   ? E2M1::decode(code)
              : element == Element::e4m3 ? E4M3::decode(code)
                                         : E5M2::decode(code));
}
float ggml_decode(Element, uint8_t code, uint8_t scale) {
  return peer::kTwiceE2M1[code & 15u] * ggml_half(scale);
}

using C = Convention;
constexpr std::array<MxRule, 9> kRules = {{
    {C::te, te_block, te_code, decode, true},
    {C::modelopt, modelopt_block, modelopt_code, decode, true},
    {C::compressed_tensors, ct_block, te_code, decode, true},
    {C::ggml, ggml_block, ggml_code, ggml_decode, false},
    {C::rceil, rceil_block, torchao_code, decode, true},
    {C::floor, floor_block, torchao_code, decode, true},
    {C::even, even_block, torchao_code, decode, true},
    {C::ceil, ceil_block, torchao_code, decode, true},
    {C::microxcaling, microxcaling_block, microxcaling_code, decode, true},
}};

}  // namespace

MxElement mx_element(Element element) {
  switch (element) {
    case Element::e2m1:
      return {E2M1::kMax, 2, 1};
    case Element::e4m3:
      return {E4M3::kMax, 8, 3};
    case Element::e5m2:
      return {E5M2::kMax, 15, 2};
    default:
      fail(ErrorCode::internal, "no MX element {}", to_string(element));
  }
}

const MxRule& mx_rule(Convention id) {
  for (const MxRule& rule : kRules) {
    if (rule.id == id) return rule;
  }
  fail(ErrorCode::internal, "no MX rule for convention {}", to_string(id));
}

}  // namespace minite
