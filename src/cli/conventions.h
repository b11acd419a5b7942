#pragma once
// Tables of minite formats: the conventions, and what they do at the edges.
#include <string>

#include "cli/output.h"

namespace minite::cli {

std::string conventions_text(ReportStyle style);
nlohmann::ordered_json conventions_json();
/// Cells are "scale byte, code, decoded value" of one element, made by the reference backend.
std::string edge_cases_text(ReportStyle style);
nlohmann::ordered_json edge_cases_json();

}  // namespace minite::cli
