#pragma once
// Points of a comparison that are no tensor: experts of rows, digests of weights, tokens that one side
// scores.
#include "diagnostics/align.h"

namespace minite::diagnostics {

[[nodiscard]] PointResult point_named(const std::string& name, int layer, std::string_view module,
                                      std::string_view point);

/// Where the rows of each layer went: comparison.experts, and a point "layers.L.router.experts".
/// comparison.rows is set.
void add_experts(const Capture& a, const Capture& b, Comparison& comparison);
/// A point "PARAMETER.weight.digest" for each parameter that both sides had in memory.
void add_digests(const Capture& a, const Capture& b, Comparison& comparison);
/// The point "scored.rows": tokens that one side scores and the other does not, of sequences that both score.
/// comparison.scored is set.
void add_scored_rows(const Capture& a, const Capture& b, Comparison& comparison);

}  // namespace minite::diagnostics
