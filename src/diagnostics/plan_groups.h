#pragma once
// plans.json, which has a sentence for every product, folded to one line for each way of computing.
#include <string>

#include "diagnostics/run_data.h"

namespace minite::diagnostics {

/// By stage: "learner fprop x12: KERNEL: FORMATS, ORDER" in the order of the file; sentences of another form
/// stand as they are. Empty when the run has no plans.
[[nodiscard]] std::string plans_text(const RunData& run);

}  // namespace minite::diagnostics
