#pragma once
// How far decoded values are from the originals. Sums are FP64 and add elements in the order given, so that a
// result repeats bit for bit.
#include <cstdint>
#include <span>

namespace minite::diagnostics {

/// Sums over the elements whose original is finite. A decoded value that is not finite makes the sums so: a
/// format that loses values shows as NaN, not as a good mean.
struct ErrorStats {
  int64_t count = 0;              ///< elements
  int64_t nonfinite = 0;          ///< originals that are NaN or infinite, left out of the sums
  int64_t nonfinite_decoded = 0;  ///< decoded values that are NaN or infinite, of any original
  double signal = 0;              ///< sum of x^2
  double noise = 0;               ///< sum of (decoded - x)^2
  double absolute = 0;            ///< sum of |decoded - x|

  /// Adds elements; both spans have one length.
  void add(std::span<const float> x, std::span<const float> decoded);
  /// Adds the sums of elements that came later.
  void merge(const ErrorStats& later);

  /// |decoded - x|_2 / |x|_2; 0 when nothing differs, infinite when only x is 0.
  [[nodiscard]] double relative_l2() const;
  /// 20 log10(|x|_2 / |decoded - x|_2) in dB; infinite when nothing differs.
  [[nodiscard]] double snr_db() const;
  /// Mean of |decoded - x|; 0 without elements.
  [[nodiscard]] double mae() const;
};

}  // namespace minite::diagnostics
