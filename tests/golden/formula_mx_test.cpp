// New vectors for MX formats: the conventions' formulas written down once more (golden/formula.h says how).
#include <gtest/gtest.h>

#include "golden/formula.h"

namespace minite::golden {
namespace {

struct Element {
  FormatId format;
  const std::vector<double>* values;
  int max_exponent, mantissa, sign;  ///< sign: the bit of a code
  [[nodiscard]] double max() const { return values->back(); }
};
const Element kFp4 = {FormatId::mxfp4, &kE2M1, 2, 1, 8}, kFp8 = {FormatId::mxfp8, &kE4M3, 8, 3, 128},
              kE5m2 = {FormatId::mxfp8_e5m2, &kE5M2, 15, 2, 128};

constexpr int kNanByte = 255;
double power(int byte) { return byte == kNanByte ? kNan : std::ldexp(1.0, byte - 127); }
/// x / 2^(b-127).
double scaled(double x, int byte) { return mul(x, byte == kNanByte ? kNan : std::ldexp(1.0, 127 - byte)); }
/// The byte of exponent e.
int byte_of(int e) { return std::clamp(e, -127, 127) + 127; }
int floor_exponent(double x) { return x == 0 ? -1000 : std::ilogb(x); }
int ceil_exponent(double x) {
  return x == 0 ? -1000 : std::ilogb(x) + (std::scalbn(1.0, std::ilogb(x)) < x ? 1 : 0);
}

double value_of(const Element& e, int code) {
  const int magnitude = code & (e.sign - 1);
  if (magnitude >= static_cast<int>(e.values->size())) return kNan;
  return std::copysign((*e.values)[static_cast<size_t>(magnitude)], (code & e.sign) != 0 ? -1.0 : 1.0);
}

using ByteOf = std::function<int(double a)>;
using CodeOf = std::function<int(double x, int byte)>;
Formula mx(const Element& e, const ByteOf& byte_of_amax, const CodeOf& code) {
  Formula f;
  f.encode = [=](std::span<const double> x, double a, double) {
    const int byte = byte_of_amax(a);
    return each(byte, x, [=](double v) { return code(v, byte); });
  };
  f.decode = [e](int c, int byte, double) { return mul(value_of(e, c), power(byte)); };
  return f;
}

// --- codes ---
/// Nearest even; NaN has no sign, E2M1 has none and takes 0. 8-bit codes keep the sign of -0.
CodeOf plain(const Element& e) {
  return [e](double x, int byte) {
    const double y = scaled(x, byte);
    if (std::isnan(y)) return e.sign == 8 ? 0 : 0x7F;
    const bool negative = e.sign == 8 ? y < 0 : std::signbit(y);
    return nearest(*e.values, std::fabs(y)) | (negative ? e.sign : 0);
  };
}
/// Every sign kept, also that of an element that is NaN; NaN in E2M1 is 3.
CodeOf torchao(const Element& e) {
  return [e](double x, int byte) {
    const double y = scaled(x, byte);
    const int magnitude = !std::isnan(y) ? nearest(*e.values, std::fabs(y)) : e.sign == 8 ? 3 : 0x7F;
    return magnitude | (std::signbit(y) ? e.sign : 0);
  };
}
/// ModelOpt's MXFP4: ties to zero, zeros are negative.
int modelopt_fp4(double x, int byte) {
  const double y = scaled(x, byte);
  return std::isnan(y) ? 0 : nearest(kE2M1, std::fabs(y), Ties::down) | (y <= 0 ? 8 : 0);
}
/// Half away from zero. Its program stores values, not codes: those of NaN are this project's.
CodeOf half_away(const Element& e) {
  return [e](double x, int byte) {
    const double y = scaled(x, byte);
    const int magnitude = !std::isnan(y) ? nearest(*e.values, std::fabs(y), Ties::up)
                          : e.sign == 8  ? 0
                                         : 0x7F;
    return magnitude | (std::signbit(y) ? e.sign : 0);
  };
}

// --- scale bytes ---
/// An infinite or NaN amax makes the block NaN.
ByteOf or_nan(const ByteOf& of_finite) {
  return [of_finite](double a) { return std::isfinite(a) ? of_finite(a) : kNanByte; };
}
ByteOf rceil(const Element& e) {
  return [max = e.max()](double a) { return byte_of(ceil_exponent(mul(a, f32(1 / max)))); };
}
/// The amax rounded half up to `mantissa` bits, then floor; what reaches 2^128 is `overflow`.
ByteOf rounded_floor(const Element& e, int mantissa, int overflow) {
  return [=](double a) {
    if (!std::isfinite(a)) return overflow;
    const int exponent = a == 0 ? -1000 : std::max(floor_exponent(a), -126);
    const double half_step = std::ldexp(1.0, exponent - mantissa - 1);
    const int e_rounded = a == 0 ? -1000 : floor_exponent(a + half_step);
    return e_rounded > 127 ? overflow : byte_of(e_rounded - e.max_exponent);
  };
}
double fp32_log2(double a) { return f32(std::log2(a)); }

/// One check a convention, of BF16 and FP32 input.
void check(const Element& e, Convention convention, const Formula& formula) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const QuantSpec spec{.format = e.format, .convention = convention};
    EXPECT_GT(compare(spec, formula, dtype), 10000) << to_string(spec);
  }
}
using C = Convention;

/// An infinite amax counts as 2^127: byte 0xFE. NaN makes the block NaN.
TEST(FormulasMx, TransformerEngine) {
  for (const Element& e : {kFp4, kFp8, kE5m2}) {
    const ByteOf byte = [of_finite = rceil(e)](double a) {
      return std::isnan(a) ? kNanByte : std::isinf(a) ? 254 : of_finite(a);
    };
    check(e, C::te, mx(e, byte, plain(e)));
  }
}

TEST(FormulasMx, Torchao) {
  for (const Element& e : {kFp4, kFp8, kE5m2}) {
    const ByteOf floor = [e](double a) { return byte_of(floor_exponent(a) - e.max_exponent); };
    const ByteOf ceil = [e](double a) { return byte_of(ceil_exponent(a) - e.max_exponent); };
    check(e, C::rceil, mx(e, or_nan(rceil(e)), torchao(e)));
    check(e, C::floor, mx(e, or_nan(floor), torchao(e)));
    check(e, C::ceil, mx(e, or_nan(ceil), torchao(e)));
    check(e, C::even, mx(e, rounded_floor(e, e.mantissa, kNanByte), torchao(e)));
  }
}

/// ceil(log2(fl(a / max))) in FP32 within [-127, 127]; infinity is the end of that range.
TEST(FormulasMx, Modelopt) {
  for (const Element& e : {kFp4, kFp8}) {
    const ByteOf byte = [max = e.max()](double a) {
      const double t = div(a, max);
      if (std::isnan(t)) return kNanByte;
      return t == 0 ? 0 : static_cast<int>(clamp(std::ceil(fp32_log2(t)), -127, 127)) + 127;
    };
    check(e, C::modelopt, mx(e, byte, e.sign == 8 ? CodeOf(modelopt_fp4) : plain(e)));
  }
}

/// The half step is E2M1's for both elements. What overflows is divided by an infinite scale: finite elements
/// give 0, others NaN; the byte is 0x7F.
TEST(FormulasMx, CompressedTensors) {
  for (const Element& e : {kFp4, kFp8}) {
    const ByteOf exponent = rounded_floor(e, 1, -1);
    Formula f = mx(e, {}, {});
    f.encode = [=](std::span<const double> x, double a, double) {
      const int byte = exponent(a);
      if (byte >= 0) return each(byte, x, [&](double v) { return plain(e)(v, byte); });
      return each(0x7F, x, [&](double v) { return plain(e)(div(v, kInf), 127); });
    };
    check(e, C::compressed_tensors, f);
  }
}

TEST(FormulasMx, Microxcaling) {
  for (const Element& e : {kFp4, kFp8, kE5m2}) {
    const ByteOf byte = [e](double a) {
      return byte_of(a == 0 ? -1000 : static_cast<int>(std::floor(fp32_log2(a))) - e.max_exponent);
    };
    check(e, C::microxcaling, mx(e, or_nan(byte), half_away(e)));
  }
}

/// The byte's upper bits fall off; 0xFF is a number. NaN does not count, and is code 0. An infinite amax is
/// converted to a byte, which C leaves undefined; here it counts as 2^128.
TEST(FormulasMx, Ggml) {
  const auto half = [](int byte) { return std::ldexp(1.0, byte - 128); };
  const auto twice = [](int code) { return code == 8 ? 0.0 : 2 * value_of(kFp4, code); };
  Formula f;
  f.nan_counts = false;
  f.encode = [=](std::span<const double> x, double a, double) {
    const int exponent = a == 0 ? -125 : std::isinf(a) ? 128 : static_cast<int>(std::floor(fp32_log2(a)));
    const int byte = (exponent - 2 + 127) & 0xFF;
    return each(byte, x, [=](double v) {
      int best = 0;
      double smallest = kInf;
      for (int code = 0; code < 16; ++code) {
        const double distance = std::fabs(sub(mul(twice(code), half(byte)), v));
        if (distance < smallest) {
          smallest = distance;
          best = code;
        }
      }
      return best;
    });
  };
  f.decode = [=](int code, int byte, double) { return mul(twice(code), half(byte)); };
  check(kFp4, C::ggml, f);
}

}  // namespace
}  // namespace minite::golden
