#pragma once
// The page of `minite explore`: figures that compute in the browser, from data that stand in the page.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "diagnostics/run_data.h"

namespace minite::diagnostics {

/// What the figures show. `recipes` are the descriptions that `minite describe --json` prints; `tokens` is a
/// document of `minite gap --tokens-json`, or null.
struct ExploreData {
  nlohmann::ordered_json recipes = nlohmann::ordered_json::array();
  std::vector<RunData> runs;
  nlohmann::ordered_json tokens;
};

/// One HTML file that loads nothing: bit explorer, outer scales, direction quadrant, training dynamics (when
/// there are runs), compute paths. Errors: invalid_argument when `tokens` lacks a field, with its name.
[[nodiscard]] std::string render_explore(const ExploreData& data);

/// The part of the page's scripts that computes NVFP4, as a CommonJS module.
[[nodiscard]] std::string_view explore_numerics();

}  // namespace minite::diagnostics
