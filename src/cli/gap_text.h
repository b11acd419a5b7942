#pragma once
// A grid of gaps as text.
#include <string>

#include "cli/gap_document.h"

namespace minite::cli {

/// The grid as a table, then a short summary.
[[nodiscard]] std::string gap_text(const GapRequest& request, const rl::GapGrid& grid);
/// Tables of tails, regions, segments, concentration and the worst responses of every cell with a gap.
[[nodiscard]] std::string gap_details_text(const rl::GapGrid& grid);
/// Which cells `expect` does not allow, and why; empty when it allows all.
[[nodiscard]] std::string gap_failures(const rl::GapGrid& grid, double expect);

}  // namespace minite::cli
