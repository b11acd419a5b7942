#include "diagnostics/chunk_stats.h"

#include <algorithm>
#include <cmath>

#include "core/cpu.h"
#include "formats/element_codes.h"

namespace minite::diagnostics {
namespace {

constexpr size_t kLanes = 8;

template <class T>
std::optional<ValueStats> values(std::span<const T> x) {
  ValueStats s;
  const size_t n = x.size();
  s.count = static_cast<int64_t>(n);
  if (n == 0) return s;
  ValueSums sums;
  cpu_info().avx2 ? avx2::sum_values(x.data(), n, sums) : baseline::sum_values(x.data(), n, sums);
  if (!std::isfinite(sums.shifted)) return {};
  const size_t padding = (kLanes - n % kLanes) % kLanes;
  const float first = x[0];
  const auto count = static_cast<double>(n);
  const double d = sums.shifted / count;
  s.mean = first + d;
  s.m2 = std::max(0.0, sums.squares - count * d * d);
  s.l1 = sums.absolute - static_cast<double>(padding) * std::fabs(double{first});
  s.zero = sums.zero - (first == 0.0f ? static_cast<int64_t>(padding) : 0);
  s.min = sums.min, s.max = sums.max, s.amin = sums.amin;
  return s;
}

/// The smallest float from a / b on.
float ratio_above(float a, float b) {
  const float r = a / b;
  return double{r} * double{b} >= double{a} ? r : std::nextafter(r, std::numeric_limits<float>::infinity());
}

template <class T>
std::optional<ChunkLoss> losses(const ChunkCodes& codes, std::span<const T> x,
                                std::span<const float> decoded) {
  LossSums sums;
  const size_t n = x.size();
  cpu_info().avx2 ? avx2::sum_losses(codes, x.data(), decoded.data(), n, sums)
                  : baseline::sum_losses(codes, x.data(), decoded.data(), n, sums);
  if (!std::isfinite(sums.signal) || !std::isfinite(sums.noise)) return {};
  ChunkLoss result;
  result.loss.error.count = static_cast<int64_t>(n);
  result.loss.error.signal = sums.signal;
  result.loss.error.noise = sums.noise;
  result.loss.nonzero = sums.nonzero;
  result.loss.underflow = sums.underflow;
  result.loss.saturated = sums.saturated;
  result.may_overflow = sums.beyond;
  return result;
}

}  // namespace

std::optional<ValueStats> finite_values(std::span<const float> x) { return values(x); }
std::optional<ValueStats> finite_values(std::span<const bf16> x) { return values(x); }

// An element overflows when |x| max > |decoded| bound in exact arithmetic (ops/code_stats.h). Rounding is
// monotonic, so that |x| times a ratio from max / bound on is then at least |decoded| in FP32 too.
ChunkCodes chunk_codes(const uint8_t* codes, Element element, bool nibbles) {
  const ElementCodes e = element_codes(element);
  return {codes, nibbles, e.magnitude_mask, e.largest, ratio_above(e.max, e.bound)};
}

std::optional<ChunkLoss> finite_codes(const ChunkCodes& codes, std::span<const float> x,
                                      std::span<const float> decoded) {
  return losses(codes, x, decoded);
}
std::optional<ChunkLoss> finite_codes(const ChunkCodes& codes, std::span<const bf16> x,
                                      std::span<const float> decoded) {
  return losses(codes, x, decoded);
}

}  // namespace minite::diagnostics
