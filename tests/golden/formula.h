#pragma once
// What the formula tests share: FP32 arithmetic in FP64 with explicit roundings, codes found by search, and
// the comparison of a formula with every backend. A formula here is written from the published description
// alone and shares no code with src/.
//
// An FP32 operation is its FP64 result rounded once more, which is exact for + - * /. NaN follows x86, as in
// the projects' own runs: a NaN operand passes, the first one first; an invalid operation gives -NaN.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "minite/format.h"

namespace minite::golden {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kFmax = 0x1.fffffep127;

inline double f32(double x) { return static_cast<double>(static_cast<float>(x)); }
inline double to_bf16(double x) {
  return static_cast<double>(static_cast<float>(bf16(static_cast<float>(x))));
}

/// IEEE binary16: steps of 2^-24 below 2^-14, 11 significant bits above, infinite from 65520 on.
inline double to_f16(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const double step = std::ldexp(1.0, std::max(std::ilogb(x), -14) - 10), y = std::nearbyint(x / step) * step;
  return std::fabs(y) > 65504 ? std::copysign(kInf, x) : y;
}

/// `result` rounded to FP32, with the NaN that x86 gives.
inline double settled(double result, double a, double b) {
  if (!std::isnan(result)) return f32(result);
  return std::isnan(a) ? a : std::isnan(b) ? b : std::copysign(kNan, -1.0);
}
inline double mul(double a, double b) { return settled(a * b, a, b); }
inline double div(double a, double b) { return settled(a / b, a, b); }
inline double add(double a, double b) { return settled(a + b, a, b); }
inline double sub(double a, double b) { return settled(a - b, a, b); }
/// torch.clamp: NaN stays.
inline double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/// Magnitudes of a format by code, ascending.
inline std::vector<double> grid(int exponent_bits, int mantissa_bits, int largest_code) {
  std::vector<double> values;
  const int bias = (1 << (exponent_bits - 1)) - 1, steps = 1 << mantissa_bits;
  for (int code = 0; code <= largest_code; ++code) {
    const int e = code / steps, m = code % steps;
    values.push_back(e == 0 ? std::ldexp(m, 1 - bias - mantissa_bits)
                            : std::ldexp(steps + m, e - bias - mantissa_bits));
  }
  return values;
}
inline const std::vector<double> kE2M1 = grid(2, 1, 7), kE4M3 = grid(4, 3, 0x7E), kE5M2 = grid(5, 2, 0x7B);

/// Where midpoints go.
enum class Ties : uint8_t { even, down, up };
/// Code of the nearest magnitude; past the end the last.
inline int nearest(const std::vector<double>& values, double magnitude, Ties ties = Ties::even) {
  const double m = std::min(magnitude, values.back());
  int best = 0;
  for (int code = 1; code < static_cast<int>(values.size()); ++code) {
    const double was = std::fabs(values[static_cast<size_t>(best)] - m),
                 now = std::fabs(values[static_cast<size_t>(code)] - m);
    const bool wins = ties == Ties::up || (ties == Ties::even && code % 2 == 0);
    if (now < was || (now == was && wins)) best = code;
  }
  return best;
}
/// The value of an E4M3 byte, with the NaN of torch's cast, whose payload shows in torchao's codes.
inline double e4m3_value(int byte) {
  const double m = (byte & 0x7F) == 0x7F ? 0.0 : kE4M3[static_cast<size_t>(byte & 0x7F)];
  const double value = (byte & 0x7F) == 0x7F ? static_cast<double>(std::bit_cast<float>(0x7FF00000u)) : m;
  return std::copysign(value, byte < 0x80 ? 1.0 : -1.0);
}
/// torch's cast on the CPU: 464 becomes 448, above is NaN.
inline int cast(double x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  return (std::fabs(x) <= 464 ? nearest(kE4M3, std::fabs(x)) : 0x7F) | sign;
}
/// CUDA's conversion: saturates.
inline int saturating_e4m3(double x) {
  return std::isnan(x) ? 0x7F : nearest(kE4M3, std::fabs(x)) | (std::signbit(x) ? 0x80 : 0);
}

/// What a formula makes of one block.
struct Coded {
  int byte = 0;
  std::vector<int> codes;
};
/// One convention on one format.
struct Formula {
  /// What is stored beside codes and scales, from the amax of the outer domain; 1 without an outer scale.
  std::function<double(double amax)> global = [](double) { return 1.0; };
  /// A block x with amax a, in a domain of amax `amax`.
  std::function<Coded(std::span<const double> x, double a, double amax)> encode;
  /// The value of a code.
  std::function<double(int code, int byte, double global)> decode;
  bool nan_counts = true;  ///< whether a NaN makes an amax NaN
};

/// A block of `byte` whose elements become codes one by one.
inline Coded each(int byte, std::span<const double> x, const std::function<int(double)>& code) {
  Coded block{byte, {}};
  for (const double value : x) block.codes.push_back(code(value));
  return block;
}

/// Compares `spec` with a formula on every backend: codes, scale bytes, what is stored, decoded values; over
/// ordinary, tiny, huge, subnormal and zero values, ties, powers of two, blocks far below their tensor,
/// infinities and NaN, cut last blocks. Returns the number of codes compared.
/// f16: FP32 x that F16 holds, said to be widened from it.
int64_t compare(const QuantSpec& spec, const Formula& formula, DType dtype);

}  // namespace minite::golden
