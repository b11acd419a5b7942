#pragma once
// The functions of the engine, written once for scalars and vectors so that both give the same bits:
// FP32 polynomials with explicit fma. A type F takes part by providing, next to itself, the functions
// fma, select_lt, scale_by_power, split (the scalar ones are here, the vector ones in backends/simd/vec.h).
//
// exp: Cody-Waite reduction and a degree-6 polynomial, within 1.02 ulp of the exact value. log: the
// interval [sqrt(1/2), sqrt(2)) and a degree-8 polynomial, within 1 ulp for normal arguments.
#include <bit>
#include <cmath>
#include <cstdint>
#ifndef MINITE_INLINE  // device code comes with its own: cmake/MiniteCuda.cmake
#define MINITE_INLINE [[gnu::always_inline]] inline
#endif
namespace minite::math {

// --- the primitives of a scalar --------------------------------------------------------------------
MINITE_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MINITE_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
/// a < b ? x : y
MINITE_INLINE float select_lt(float a, float b, float x, float y) { return a < b ? x : y; }
/// Rounding to an integer by adding 1.5 * 2^23: the sum's low bits hold the integer.
inline constexpr float kRoundMagic = 12582912.0f;
/// x * 2^n where `shifted` = n + kRoundMagic, n in [-252, 252], by two exact powers of two, so that a
/// subnormal result is rounded once. A NaN in `shifted` gives some power; x is NaN then too.
MINITE_INLINE float scale_by_power(float x, float shifted) {
  const auto n = static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - 0x4B400000u);
  const int32_t half = n >> 1;
  const float a = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const float b = std::bit_cast<float>(static_cast<uint32_t>(n - half + 127) << 23);
  return x * a * b;
}
/// Splits x > 0 (normal) into m * 2^e with m in [sqrt(1/2), sqrt(2)).
MINITE_INLINE float split(float x, float& e) {
  const auto u = std::bit_cast<uint32_t>(x) - 0x3F3504F3u;
  e = static_cast<float>(static_cast<int32_t>(u) >> 23);
  return std::bit_cast<float>((u & 0x007FFFFFu) + 0x3F3504F3u);
}

// --- the functions ---------------------------------------------------------------------------------
template <class F>
MINITE_INLINE F exp(F x) {
  const F low(-104.0f), high(89.0f);
  F c = select_lt(x, low, low, x);
  c = select_lt(high, c, high, c);
  const F shifted = fma(c, F(1.44269504088896341f), F(kRoundMagic));
  const F n = shifted - F(kRoundMagic);
  F r =
      fma(n, F(-0.693145751953125f), c);  // ln 2 in two parts; the first has 15 bits, so the product is exact
  r = fma(n, F(-1.42860682030941723e-6f), r);
  F p(1.3844174100e-3f);
  p = fma(p, r, F(8.3697009832e-3f));
  p = fma(p, r, F(4.1668102145e-2f));
  p = fma(p, r, F(1.6666516662e-1f));
  p = fma(p, r, F(4.9999994040e-1f));
  p = fma(p, r * r, r);
  p = p + F(1.0f);
  return scale_by_power(p, shifted);
}

/// Natural logarithm of a positive normal x; NaN gives NaN. log of 0, of a subnormal and of infinity are not
/// used by the engine.
template <class F>
MINITE_INLINE F log(F x) {
  F e(0.0f);
  const F f = split(x, e) - F(1.0f) + (x - x);  // x - x is 0, or NaN for a NaN whose bits were split
  F p(7.0376836292e-2f);
  p = fma(p, f, F(-1.1514610310e-1f));
  p = fma(p, f, F(1.1676998740e-1f));
  p = fma(p, f, F(-1.2420140846e-1f));
  p = fma(p, f, F(1.4249322787e-1f));
  p = fma(p, f, F(-1.6668057665e-1f));
  p = fma(p, f, F(2.0000714765e-1f));
  p = fma(p, f, F(-2.4999993993e-1f));
  p = fma(p, f, F(3.3333331174e-1f));
  const F f2 = f * f;
  F y = p * f * f2;
  y = fma(e, F(-2.12194440e-4f), y);
  y = fma(F(-0.5f), f2, y);
  y = f + y;
  return fma(e, F(0.693359375f), y);
}

template <class F>
MINITE_INLINE F sigmoid(F x) {
  return F(1.0f) / (F(1.0f) + exp(F(0.0f) - x));
}

// Double is the type of the gradient checks only; there the library functions serve.
MINITE_INLINE double exp(double x) { return std::exp(x); }
MINITE_INLINE double log(double x) { return std::log(x); }
MINITE_INLINE double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace minite::math
