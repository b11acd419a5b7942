#pragma once
// Causes besides that of the first divergence: differences that no value computed before them can explain.
#include "diagnostics/align_where.h"

namespace minite::diagnostics {

/// The causes that are not that of `first`: those of points in the order of computation, then keys and
/// values, then log-probs. Where the cause of `first` shows at
/// more places, they are added to `cause`.
[[nodiscard]] std::vector<Cause> other_causes(const Aligned& sides, const PointResult& first, Cause& cause);

}  // namespace minite::diagnostics
