#pragma once
// What differing digests of weights mean.
#include "diagnostics/align_where.h"

namespace minite::diagnostics {

/// Of a point "PARAMETER.weight.digest" that differs.
struct WeightSlip {
  std::string parameter;
  std::vector<size_t> moved;  ///< parts (experts) whose digests differ
  bool permuted = false;      ///< both sides hold the same parts in other places
};
[[nodiscard]] WeightSlip weight_slip(const Aligned& sides, const PointResult& point);

/// Whether the weights in memory are of another version than the contract says, on either side.
[[nodiscard]] bool stale(const Aligned& sides);
/// "Stale: the contract says version 3, in use were 3 at A and 2 at B."
[[nodiscard]] std::string stale_text(const Aligned& sides);

/// How outer scales of a point differ: those of another expert, by a constant, or "".
[[nodiscard]] std::string scale_text(const Aligned& sides, const PointResult& point);
/// Whether both sides have the same parts (experts) of a weight in another order.
[[nodiscard]] bool permuted_parts(const Aligned& sides, const PointResult& point);

}  // namespace minite::diagnostics
