#pragma once
// What `minite compare` says, as JSON and as text.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "diagnostics/align.h"

namespace minite::cli {

[[nodiscard]] nlohmann::ordered_json compare_document(const diagnostics::Comparison& comparison);
/// With every point when `all`, else those that are not equal.
[[nodiscard]] std::string compare_text(const diagnostics::Comparison& comparison, bool all);

}  // namespace minite::cli
