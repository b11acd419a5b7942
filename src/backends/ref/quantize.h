#pragma once
// quantize / dequantize: convention `te` for NVFP4 (Transformer Engine's reference quantizer) and a plain
// simulation for other elements are here; MX formats and the other conventions of NVFP4 follow the rules of
// formats/mx_rules.h and formats/nvfp4_rules.h (convention.cpp). fl() is one FP32 operation.
//
//   NVFP4, R = 6 * scale_max (2688 or 1536):
//   A     = max |x| over the outer scale's domain (NaN if any element is NaN)
//   S_enc = min(fl(R / A), FMAX), 1 if A = 0 or A = inf             S_dec = fl(1 / S_enc)
//   d     = E4M3(min(fl(a_blk * fl(S_enc * fl(1/6))), FMAX))        block scale
//   e     = min(fl(1 / fl(d * S_dec)), FMAX)                        block encode factor
//   code  = E2M1(fl(x * e))
//   decode: q * fl(fl(d * A) * fl(1/R)); without an outer scale q * d
//   2D:     a_blk is the amax of a 16 x 16 tile; its rows store the same d.
//   4over6: base = fl(fl(a_blk / 6) * S_enc); d6 = E4M3(base), d4 = E4M3(fl(1.5 * base)), each with its e.
//   The
//           error of a candidate is the FP32 sum over the 16 elements in order of |v - x| or (v - x)^2 with
//           v = fl(fl(fl(q * d) * A) / R); d4 is taken if its error is strictly smaller. In a tile, the
//           errors of its 16 rows (rows of w, in both orientations) fold 8, 4, 2, 1.
//   sr:     y = fl(x * e), m = min(|y|, 6), t = fma(u / 256, step(m), m) with a random byte u and the grid's
//           step above m (0.5 below 2, 1 below 4, else 2); the code is t rounded down, at most 6.
//   rht:    z_c = bf16(fl(0.25 * sum_r (-1)^popcount(r & c) s_r x_r)) over 16 elements, s_r = -1 where bit r
//   of
//           0xD7E8 is set; the sum is butterflies of strides 1, 2, 4, 8 in FP32. z takes the place of x.
// MX:    b = E8M0(fl(a_blk * fl(1/max))) rounded up, code = element(fl(x * 2^(127-b))), NaN is always 0x7F.
// sim:   t = fl(a_blk / max), d = E4M3(t) or E8M0(t) rounded up, code = ExMy(fl(x / d)), decode q * d. An
// E4M3
//        scale can underflow to 0: zeros of such a block become NaN (0/0), other values saturate and decode
//        to 0. An all-zero block is NaN for the same reason.
#include "core/math.h"
#include "core/philox.h"
#include "formats/codecs.h"
#include "ops/args.h"

namespace minite::ref {

inline constexpr float kFloatMax = 3.40282346638528859812e+38f;
inline constexpr float kSixth = 0x1.555556p-3f;  // fl(1/6) = 0x3E2AAAAB

/// Whether a NaN makes the amax NaN or is passed over.
enum class Nan : uint8_t { counts, skipped };

/// max |x|: the bit patterns of magnitudes order like the magnitudes, NaN on top.
class Amax {
 public:
  explicit Amax(Nan nan = Nan::counts) : limit_(nan == Nan::counts ? 0x7FFFFFFFu : 0x7F800000u) {}
  MINITE_INLINE void add(float x) {
    const uint32_t m = std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu;
    bits_ = m > bits_ && m <= limit_ ? m : bits_;
  }
  [[nodiscard]] MINITE_INLINE float value() const { return std::bit_cast<float>(bits_); }

 private:
  uint32_t bits_ = 0, limit_;
};

/// min(x, FMAX) that keeps NaN.
MINITE_INLINE float clamp_finite(float x) { return x > kFloatMax ? kFloatMax : x; }

/// What the outer amax maps to: 6 * scale_max.
MINITE_INLINE float nvfp4_range(const QuantSpec& spec) { return 6.0f * static_cast<float>(spec.scale_max); }

/// Multiplier of an accumulator under Epilogue::te.
MINITE_INLINE float te_alpha(const QTensor& a, int64_t row, const QTensor& b, int64_t col) {
  const float range = nvfp4_range(a.spec) * nvfp4_range(b.spec);
  return a.amax_of(row) * b.amax_of(col) / range;
}

/// Outer encode scale of NVFP4 from the amax of its domain.
MINITE_INLINE float nvfp4_encode_scale(float amax, float range) {
  const float s = clamp_finite(range / amax);
  return amax == 0.0f || s == 0.0f ? 1.0f : s;
}

/// The two factors of one NVFP4 block.
struct Nvfp4Block {
  uint8_t scale;  ///< E4M3 byte
  float encode;   ///< multiplies x before the E2M1 rounding
};
/// e of a block with scale d.
MINITE_INLINE float nvfp4_encode(uint8_t d, float s_dec) {
  return clamp_finite(1.0f / (E4M3::decode(d) * s_dec));
}

/// The multiplier of one decoded NVFP4 code: fl(fl(d * A) * fl(1/R)), or d without an outer scale.
MINITE_INLINE float nvfp4_decode_scale(uint8_t d, const float* amax, float range) {
  return amax == nullptr ? E4M3::decode(d) : E4M3::decode(d) * *amax * (1.0f / range);
}

/// The random byte of each element of a block.
MINITE_INLINE std::array<uint32_t, 4> rounding_noise(const Noise& noise, int64_t block) {
  return Philox::generate(noise.seed, static_cast<uint64_t>(block), noise.stream);
}

void quantize(const QuantizeArgs& args);
void dequantize(const DequantizeArgs& args);
/// Rows [begin, end) alone.
void dequantize_rows(const DequantizeArgs& args, int64_t begin, int64_t end);

void transpose_codes(const TransposeCodesArgs& args);
/// What belongs to the whole tensor: outer scale, amax and reciprocal, as far as the spec has them.
void copy_outer(const QTensor& from, const QTensor& to);

/// Code times block scale of element (r, c), without the outer scale: exact in FP32 for NVFP4.
float decode_element(const QTensor& q, int64_t r, int64_t c);

}  // namespace minite::ref
