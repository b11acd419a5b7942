#pragma once
// The figures of a comparison: a line for each run.
#include <vector>

#include "diagnostics/compared.h"
#include "diagnostics/report_figures.h"

namespace minite::diagnostics {

/// Sections in page order. A metric that no run recorded is named or, where a setting switches it on, left
/// out; a metric that stayed at its resting value in every run is a sentence.
[[nodiscard]] std::vector<Section> compare_sections(const std::vector<Compared>& runs);

}  // namespace minite::diagnostics
