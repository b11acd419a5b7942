#pragma once
// One page about several runs: what differs between their settings, their numbers and curves over each other.
// No scripts, no network.
#include <string>
#include <vector>

#include "diagnostics/run_data.h"

namespace minite::diagnostics {

/// A run that could not be read, which the page names.
struct Unreadable {
  std::string path;
  std::string reason;
};

inline constexpr size_t kMostRuns = 12;  ///< more lines cannot be told apart

/// The whole page; its bytes depend on the arguments only. At least one and at most kMostRuns readable runs,
/// each called by the end of its path that tells it from the others. Every text from a run is escaped.
[[nodiscard]] std::string render_comparison(const std::vector<RunData>& runs,
                                            const std::vector<Unreadable>& unreadable = {});

}  // namespace minite::diagnostics
