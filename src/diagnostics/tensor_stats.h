#pragma once
// Statistics of tensors and of their codes. Every sum is FP64 over chunks of whole rows (4096 elements, or
// one longer row), eight lanes in a chunk, chunks merged in order: the same bits at any number of threads.
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "diagnostics/error_stats.h"
#include "ops/context.h"

namespace minite::diagnostics {

/// Over the elements that are finite; `nan` and `inf` count the others.
struct ValueStats {
  int64_t count = 0;  ///< all elements
  int64_t nan = 0, inf = 0;
  int64_t zero = 0;  ///< elements that are 0 or -0
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double amin = std::numeric_limits<double>::infinity();  ///< smallest |x| that is not 0
  double mean = 0;
  double m2 = 0;  ///< sum of (x - mean)^2
  double l1 = 0;  ///< sum of |x|

  [[nodiscard]] int64_t finite() const { return count - nan - inf; }
  /// NaN without a finite element, here and below.
  [[nodiscard]] double amax() const;
  /// Of the population: the square root of m2 / finite().
  [[nodiscard]] double std() const;
  /// The square root of the sum of x^2, which is m2 + finite() mean^2; 0 without a finite element.
  [[nodiscard]] double l2() const;
  /// log2 of amax over amin; 0 when every element is 0.
  [[nodiscard]] double dynamic_range() const;
  /// Adds what came later; the mean and m2 by the update of Chan, Golub and LeVeque (1979).
  void merge(const ValueStats& later);
};

/// What codes lose of their values, element by element.
struct CodeLoss {
  ErrorStats error;
  int64_t nonzero = 0;                  ///< finite values that are not 0
  int64_t underflow = 0;                ///< of them those that decode to 0
  int64_t saturated = 0, overflow = 0;  ///< as ops::Clipped

  void merge(const CodeLoss& later);
};

/// The same and the block scales.
struct CodeStats {
  CodeLoss loss;
  int64_t blocks = 0;                    ///< block scales; a 2D tile counts once
  int64_t zero_scales = 0;               ///< of them 0
  int64_t nan_scales = 0;                ///< of them NaN
  std::array<int64_t, 256> histogram{};  ///< block scales by byte

  void merge(const CodeStats& later);
};

/// Statistics of `x`, f32 or bf16. Error: unsupported for another dtype.
[[nodiscard]] ValueStats measure(const Context& ctx, const TensorView& x);

/// Statistics of codes [M,K] against the values [M,K] that they were made from. Decodes pieces of 65536
/// elements (one row at least) into `scratch`, which grows as needed.
[[nodiscard]] CodeStats measure_codes(const Context& ctx, const QTensor& q, const TensorView& x,
                                      std::vector<float>& scratch);

}  // namespace minite::diagnostics
