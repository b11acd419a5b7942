#pragma once
// Rows that went to other experts, or to fewer: how many, and what that looks like.
#include "diagnostics/align_where.h"

namespace minite::diagnostics {

/// What is known of the routing of `layer`, in sentences. `outputs_equal`: the router's outputs are.
[[nodiscard]] std::string routing_evidence(const Aligned& sides, int layer, bool outputs_equal);

/// Rows of `layer` whose experts differ though the router's output is the same bit for bit, or though both
/// sides replay a recording: no difference before the router can be the reason.
[[nodiscard]] int64_t unexplained_rows(const Aligned& sides, int layer);

}  // namespace minite::diagnostics
