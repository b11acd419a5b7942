#pragma once
// The class of the cause of the first divergence, by rules of evidence.
#include "diagnostics/align_where.h"

namespace minite::diagnostics {

/// A difference of log-probs that the order of a sum can make; a slip of meaning makes more.
inline constexpr double kRounding = 1e-4;

/// The cause of a point that differs although it need not be the first one: a difference of weights, of
/// formats, of routing or of the tokens that are scored.
[[nodiscard]] Cause cause_of(const Aligned& sides, const PointResult& point);

/// Fills comparison.cause, comparison.also and, when the log-probs are the first that differ,
/// comparison.slips. comparison.first is set.
void explain(const Aligned& sides, Comparison& comparison);

}  // namespace minite::diagnostics
