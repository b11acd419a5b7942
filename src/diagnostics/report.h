#pragma once
// report.html: one page about one or more runs. No scripts, no network: it opens from a disk or a mail.
#include <string>
#include <vector>

#include "diagnostics/run_data.h"

namespace minite::diagnostics {

/// The whole page; the bytes depend on `runs` (at least one) only. Every text from a run is escaped.
[[nodiscard]] std::string render_report(const std::vector<RunData>& runs);

/// CSS of the page around the figures.
extern const std::string_view kReportStyle;

}  // namespace minite::diagnostics
