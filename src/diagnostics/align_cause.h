#pragma once
// The class of the cause of the first divergence, by rules of evidence.
#include "diagnostics/align_where.h"

namespace minite::diagnostics {

/// Fills comparison.cause and, when the log-probs are the first that differ, comparison.slips.
/// comparison.first is set.
void explain(const Aligned& sides, Comparison& comparison);

}  // namespace minite::diagnostics
