#pragma once
// quantize / dequantize, convention `te` for NVFP4 (Transformer Engine's reference quantizer) and the
// round-up rule for MXFP8. fl() is one FP32 operation.
//
//   A     = max |x| over the outer scale's domain (NaN if any element is NaN)
//   S_enc = min(fl(2688 / A), FMAX), 1 if A = 0 or A = inf          S_dec = fl(1 / S_enc)
//   d     = E4M3(min(fl(a_blk * fl(S_enc * fl(1/6))), FMAX))        block scale
//   e     = min(fl(1 / fl(d * S_dec)), FMAX)                        block encode factor
//   code  = E2M1(fl(x * e))
//   decode: q * fl(fl(d * A) * fl(1/2688)); without an outer scale q * d
// MXFP8: b = E8M0(fl(a_blk * fl(1/448))) rounded up, code = E4M3(fl(x * 2^(127-b))), NaN is always 0x7F.
#include "core/math.h"
#include "formats/codecs.h"
#include "ops/args.h"

namespace minite::ref {

inline constexpr float kFloatMax = 3.40282346638528859812e+38f;
inline constexpr float kSixth = 0x1.555556p-3f;  // fl(1/6) = 0x3E2AAAAB

/// max |x| with NaN propagated: the bit patterns of magnitudes order like the magnitudes, NaN on top.
class Amax {
 public:
  MINITE_INLINE void add(float x) {
    const uint32_t m = std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu;
    bits_ = m > bits_ ? m : bits_;
  }
  [[nodiscard]] MINITE_INLINE float value() const { return std::bit_cast<float>(bits_); }

 private:
  uint32_t bits_ = 0;
};

/// min(x, FMAX) that keeps NaN.
MINITE_INLINE float clamp_finite(float x) { return x > kFloatMax ? kFloatMax : x; }

/// Outer encode scale of NVFP4 from the amax of its domain.
MINITE_INLINE float nvfp4_encode_scale(float amax) {
  const float s = clamp_finite(2688.0f / amax);
  return amax == 0.0f || s == 0.0f ? 1.0f : s;
}

/// The two factors of one NVFP4 block.
struct Nvfp4Block {
  uint8_t scale;  ///< E4M3 byte
  float encode;   ///< multiplies x before the E2M1 rounding
};
/// `block_amax` is max |x| of the block, `per_six` = fl(S_enc * fl(1/6)), `s_dec` = fl(1 / S_enc).
MINITE_INLINE Nvfp4Block nvfp4_block(float block_amax, float per_six, float s_dec) {
  const uint8_t d = E4M3::encode(clamp_finite(block_amax * per_six));
  return {d, clamp_finite(1.0f / (E4M3::decode(d) * s_dec))};
}

/// The multiplier of one decoded NVFP4 code: fl(fl(d * A) * fl(1/2688)), or d without an outer scale.
MINITE_INLINE float nvfp4_decode_scale(uint8_t d, const float* amax) {
  constexpr float kPerRange = 1.0f / 2688.0f;
  return amax == nullptr ? E4M3::decode(d) : E4M3::decode(d) * *amax * kPerRange;
}

void quantize(const QuantizeArgs& args);
void dequantize(const DequantizeArgs& args);

/// Code times block scale of element (r, c), without the outer scale: exact in FP32 for NVFP4.
float decode_element(const QTensor& q, int64_t r, int64_t c);

}  // namespace minite::ref
