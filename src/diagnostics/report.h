#pragma once
// report.html: one page about one run. No scripts, no network: it opens from a disk or a mail.
#include <string>

#include "diagnostics/run_data.h"

namespace minite::diagnostics {

/// The whole page; its bytes depend on `run` only. Every text from the run is escaped.
[[nodiscard]] std::string render_report(const RunData& run);

/// summary.json as indented text; empty when the run has none.
[[nodiscard]] std::string summary_text(const RunData& run);

}  // namespace minite::diagnostics
