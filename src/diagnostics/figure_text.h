#pragma once
// What is said about the series of a figure, for screen readers and under its title.
#include <string>
#include <vector>

#include "diagnostics/svg.h"

namespace minite::diagnostics {

/// " LABEL: 0.1 at step 1, 0.9 at step 80." of each series, of the running mean with `window` (0: its own).
[[nodiscard]] std::string ends_of(const std::vector<Series>& all, size_t window = 0);
/// " 3 values are not finite and are not drawn." or nothing.
[[nodiscard]] std::string nonfinite_note(const std::vector<Series>& all);
/// " Line: running mean of 5 steps." or nothing; `window` as above.
[[nodiscard]] std::string smoothing_note(const std::vector<Series>& all, size_t window = 0);

}  // namespace minite::diagnostics
