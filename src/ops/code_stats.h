#pragma once
// Counts over codes and block scales: what a quantizer lost.
#include <cstdint>
#include <span>

#include "minite/format.h"

namespace minite::ops {

struct ScaleStats {
  int64_t blocks = 0;  ///< block scales; a 2D tile counts once
  int64_t zero = 0;    ///< of them 0: every value of the block decodes to 0
  int64_t nan = 0;     ///< of them NaN
};
/// Counts over all block scales of `q`.
[[nodiscard]] ScaleStats scale_stats(const QTensor& q);

/// Elements that a block scale holds too little for.
struct Clipped {
  int64_t saturated = 0;  ///< the code is the largest of the element and decodes below |x|
  int64_t overflow = 0;   ///< of them those beyond half a step above the largest value. The rounding of a
                          ///< scale to E4M3 saturates elements without ever overflowing one
};
/// Counts in row `row`, whose first x.size() columns are `x` and decode to `decoded`. A NaN or infinite x is
/// not counted; one that decodes to 0 because its scale is 0 is no overflow.
[[nodiscard]] Clipped count_clipped(const QTensor& q, int64_t row, std::span<const float> x,
                                    std::span<const float> decoded);

/// How many elements of row `row` are saturated: their code is the largest of the element and decodes below
/// |x|. `x` and `decoded` hold the row's values, at most q.cols of them; a NaN or infinite x is not counted.
[[nodiscard]] int64_t count_saturated(const QTensor& q, int64_t row, std::span<const float> x,
                                      std::span<const float> decoded);

}  // namespace minite::ops
