#include "formats/nvfp4_rules.h"

#include <array>

#include "core/fail.h"
#include "formats/peer_math.h"

namespace minite {
namespace {

using peer::cast_e4m3;
using peer::clamp;
using peer::div;
using peer::mul;
using peer::widen_e4m3;

constexpr float kFloatMax = 3.40282346638528859812e+38f;
constexpr float kSixth = 1.0f / 6.0f;
constexpr uint8_t kEighth = 0x20;  // E4M3 of 0.125

/// x in the weight's dtype.
float rounded(float x, const PeerContext& context) {
  return context.dtype == DType::bf16  ? static_cast<float>(bf16(x))
         : context.dtype == DType::f16 ? peer::round_f16(x)
                                       : x;
}
uint8_t e2m1_or(float y, uint8_t nan) { return codec_detail::is_nan(y) ? nan : E2M1::encode(y); }
uint8_t quotient_nan0(float x, float divisor) { return e2m1_or(div(x, divisor), 0); }
uint8_t quotient_nan7(float x, float divisor) { return e2m1_or(div(x, divisor), 7); }
uint8_t product_nan0(float x, float factor) { return e2m1_or(mul(x, factor), 0); }
uint8_t product_nan7(float x, float factor) { return e2m1_or(mul(x, factor), 7); }
/// Negative zero keeps its sign, NaN goes through as bits.
uint8_t product_of_bits(float x, float factor) {
  const float y = mul(x, factor);
  if (codec_detail::is_nan(y)) return peer::e2m1_of_nan_bits(y);
  return static_cast<uint8_t>(E2M1::encode(codec_detail::magnitude(y)) | codec_detail::sign_bit(y) << 3);
}

PeerOuter no_outer(float, const PeerContext&) { return {}; }

/// s2 = fl(A / 2688), stored.
PeerOuter multiplier_outer(float amax, const PeerContext& context) {
  const float s2 = div(amax, context.range);
  return {amax, s2, 1.0f, s2};
}
/// g = fl(fl(1 / A) * 2688), each rounded to the dtype of the statistics: a number divided by a torch tensor
/// is the tensor's reciprocal times the number.
float reciprocal_global(float amax, const PeerContext& context) {
  return rounded(mul(rounded(div(1.0f, amax), context), context.range), context);
}
PeerOuter reciprocal_outer(float amax, const PeerContext& context) {
  const float g = reciprocal_global(amax, {.range = context.range});
  return {amax, g, g, div(1.0f, g)};
}

// --- modelopt ---
uint8_t modelopt_scale(float amax, const PeerOuter& outer, const PeerContext&, float) {
  const float t = div(amax, mul(6.0f, outer.multiplier));
  return cast_e4m3(clamp(t == 0.0f ? 1.0f : t, 0x1p-9f, 448.0f));
}
float scale_times_multiplier(uint8_t d, const PeerOuter& outer) {
  return mul(widen_e4m3(d), outer.multiplier);
}
float decode_multiplier(uint8_t d, float s2, const PeerContext&) { return E4M3::decode(d) * s2; }

// --- compressed-tensors ---
PeerOuter ct_outer(float amax, const PeerContext& context) {
  const float g = reciprocal_global(amax, context), finite = peer::finite(g) ? g : 1.0f;
  return {amax, finite, finite, div(1.0f, finite)};
}
PeerOuter ct_f32_outer(float amax, const PeerContext& context) {
  return ct_outer(amax, {.range = context.range});
}
uint8_t ct_scale_of(float sixth, const PeerOuter& outer) {
  const uint8_t d = cast_e4m3(clamp(mul(outer.encode, sixth), -448.0f, 448.0f));
  return d == 0 ? kEighth : d;
}
uint8_t ct_scale(float amax, const PeerOuter& outer, const PeerContext& context, float) {
  return ct_scale_of(rounded(div(amax, 6.0f), context), outer);
}
uint8_t ct_f32_scale(float amax, const PeerOuter& outer, const PeerContext&, float) {
  return ct_scale_of(div(amax, 6.0f), outer);
}
float scale_over_reciprocal(uint8_t d, const PeerOuter& outer) { return div(widen_e4m3(d), outer.encode); }
float decode_reciprocal(uint8_t d, float g, const PeerContext&) { return E4M3::decode(d) / g; }

// --- torchao ---
uint8_t torchao_scale(float amax, const PeerOuter& outer, const PeerContext&, float) {
  return cast_e4m3(clamp(div(div(amax, 6.0f), outer.multiplier), 0x1p-6f, 448.0f));
}
uint8_t torchao_1level_scale(float amax, const PeerOuter&, const PeerContext&, float) {
  return cast_e4m3(clamp(div(amax, 6.0f), 0x1p-6f, 448.0f));
}
float torchao_factor(uint8_t d, const PeerOuter& outer) {
  return div(div(1.0f, outer.multiplier), widen_e4m3(d));
}
float decode_block(uint8_t d, float, const PeerContext&) { return E4M3::decode(d); }

// --- vllm and flashinfer ---
uint8_t vllm_scale(float amax, const PeerOuter& outer, const PeerContext&, float) {
  return cast_e4m3(clamp(mul(outer.encode, mul(amax, kSixth)), -448.0f, 448.0f));
}
uint8_t flashinfer_test_scale(float amax, const PeerOuter& outer, const PeerContext&, float) {
  return cast_e4m3(mul(outer.encode, mul(amax, kSixth)));
}
float vllm_factor(uint8_t d, const PeerOuter& outer) {
  const float p = mul(widen_e4m3(d), outer.multiplier);
  return div(1.0f, p == 0.0f ? 1e8f : p);
}
float flashinfer_test_factor(uint8_t d, const PeerOuter& outer) {
  const float p = mul(widen_e4m3(d), outer.multiplier);
  return p == 0.0f ? 0.0f : div(1.0f, p);
}
/// As te, but a domain of zeros keeps S_enc = FMAX.
PeerOuter flashinfer_outer(float amax, const PeerContext& context) {
  const float s = div(context.range, amax), enc = s > kFloatMax ? kFloatMax : s == 0.0f ? 1.0f : s;
  return {amax, div(1.0f, enc), enc, div(1.0f, enc)};
}
uint8_t flashinfer_scale(float amax, const PeerOuter& outer, const PeerContext&, float) {
  return E4M3::encode(mul(amax, mul(outer.encode, kSixth)));
}
float flashinfer_factor(uint8_t d, const PeerOuter& outer) {
  const float e = div(1.0f, mul(E4M3::decode(d), outer.multiplier));
  return e > kFloatMax ? kFloatMax : e;
}

// --- fouroversix ---
PeerOuter fouroversix_outer(float amax, const PeerContext& context) {
  const float e = div(context.range, amax);
  return {amax, amax, e, div(1.0f, e)};
}
uint8_t fouroversix_scale(float amax, const PeerOuter& outer, const PeerContext& context, float gain) {
  if (outer.amax == 0.0f) return 0;
  return cast_e4m3(mul(mul(div(amax, context.target), outer.encode), gain));
}
float fouroversix_factor(uint8_t d, const PeerOuter& outer) {
  return d == 0 ? 0.0f : div(1.0f, mul(outer.multiplier, widen_e4m3(d)));
}
/// Grid steps above 6 in E2M1's exponents: 8 and 12. Blocks whose scale is near the smallest one reach them.
uint32_t fouroversix_magnitude(float y) {
  return codec_detail::encode_magnitude<1, 1>(codec_detail::magnitude(y));
}
/// Four bits of what does not saturate: 8 is the code 0x8, 12 the code 0x9; NaN is 0xB.
uint8_t fouroversix_code(float x, float factor) {
  const float y = mul(x, factor);
  if (codec_detail::is_nan(y)) return 0xB;
  return static_cast<uint8_t>((fouroversix_magnitude(y) | (y < 0.0f ? 8u : 0u)) & 0xFu);
}
float fouroversix_candidate(float x, float factor) {
  const float y = mul(x, factor);
  if (codec_detail::is_nan(y)) return y;
  const float m = codec_detail::decode_magnitude<1, 1>(fouroversix_magnitude(y));
  return y < 0.0f ? -m : m;
}
float fouroversix_decode(uint8_t d, float amax, const PeerContext& context) {
  return E4M3::decode(d) * amax / context.range;
}

// --- ggml ---
/// Unsigned E4M3, half up on one bit; 256 and above, also by carry, is 448.
uint8_t ggml_scale(float amax, const PeerOuter&, const PeerContext&, float) {
  const float t = amax / 6.0f;
  if (!(t > 0.0f)) return 0;
  const uint32_t u = std::bit_cast<uint32_t>(t);
  if (t < 0x1p-6f) {
    const auto steps = static_cast<uint32_t>(t * 512.0f + 0.5f);
    return static_cast<uint8_t>(steps > 7 ? 7 : steps);
  }
  const uint32_t code = ((u >> 19) + 1) / 2 - (uint32_t{127 - 7} << 3);  // 3 mantissa bits, then half up
  return static_cast<uint8_t>(code >= 15u << 3 ? 0x7Eu : code);
}
float ggml_factor(uint8_t d, const PeerOuter&) { return peer::decode_ue4m3(d) * 0.5f; }
float ggml_decode(uint8_t d, float, const PeerContext&) { return peer::decode_ue4m3(d); }

using C = Convention;
constexpr std::array<Nvfp4Rule, 10> kRules = {{
    {C::modelopt, multiplier_outer, modelopt_scale, scale_times_multiplier, quotient_nan7, decode_multiplier,
     nullptr, true, 7},
    {C::compressed_tensors, ct_outer, ct_scale, scale_over_reciprocal, quotient_nan0, decode_reciprocal,
     nullptr, true, 0},
    {C::compressed_tensors_f32, ct_f32_outer, ct_f32_scale, scale_over_reciprocal, quotient_nan0,
     decode_reciprocal, nullptr, true, 0},
    {C::torchao, multiplier_outer, torchao_scale, torchao_factor, product_of_bits, decode_multiplier, nullptr,
     true},
    {C::torchao_1level, no_outer, torchao_1level_scale, torchao_factor, product_of_bits, decode_block,
     nullptr, true},
    {C::vllm, reciprocal_outer, vllm_scale, vllm_factor, product_nan7, decode_reciprocal, nullptr, true},
    {C::flashinfer, flashinfer_outer, flashinfer_scale, flashinfer_factor, product_nan0, decode_multiplier,
     nullptr, true},
    {C::flashinfer_test, reciprocal_outer, flashinfer_test_scale, flashinfer_test_factor, product_nan7,
     decode_reciprocal, nullptr, true},
    {C::fouroversix, fouroversix_outer, fouroversix_scale, fouroversix_factor, fouroversix_code,
     fouroversix_decode, fouroversix_candidate, true},
    {C::ggml, no_outer, ggml_scale, ggml_factor, peer::nearest_e2m1, ggml_decode, nullptr, false},
}};

}  // namespace

const Nvfp4Rule& nvfp4_rule(Convention id) {
  for (const Nvfp4Rule& rule : kRules) {
    if (rule.id == id) return rule;
  }
  fail(ErrorCode::internal, "no NVFP4 rule for convention {}", to_string(id));
}

PeerContext peer_context(const QuantSpec& spec, DType dtype) {
  const float target = spec.search == ScaleSearch::amax4 ? 4.0f : 6.0f;
  return {target * static_cast<float>(spec.scale_max), target, dtype};
}

}  // namespace minite
