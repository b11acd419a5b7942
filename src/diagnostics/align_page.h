#pragma once
// One page about a comparison of two captures. No scripts, no network.
#include <string>

#include "diagnostics/align.h"

namespace minite::diagnostics {

/// The whole page; its bytes depend on the comparison only. Every text of a capture is escaped.
[[nodiscard]] std::string render_comparison(const Comparison& comparison);

}  // namespace minite::diagnostics
