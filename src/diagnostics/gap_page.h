#pragma once
// One page about a grid of gaps. No scripts, no network.
#include <string>

#include "diagnostics/gap_data.h"
#include "diagnostics/report_figures.h"

namespace minite::diagnostics {

/// The whole page about what `minite gap --json` printed; its bytes depend on the arguments only. `origin` is
/// the file or checkpoint that errors name. Every text of the document is escaped. Error as read_gap(), also
/// for details that are not as `minite gap` writes them.
[[nodiscard]] std::string render_gap(const nlohmann::json& document, const std::string& origin);

/// The figures: the grid, and for the cells with the largest gaps tails, directions, segments, concentration
/// and responses.
[[nodiscard]] std::vector<Section> gap_sections(const GapData& gap);

}  // namespace minite::diagnostics
