#pragma once
// Runs side by side: how each is called and drawn.
#include <string>
#include <vector>

#include "diagnostics/headline.h"
#include "diagnostics/svg.h"

namespace minite::diagnostics {

struct Compared {
  const RunData* run = nullptr;
  Headline numbers;
  std::string letter;  ///< "A", "B", ...: at the ends of lines
  std::string name;    ///< the last part of the path, with as much before it as tells the runs apart
  int color = 0;
  Dash dash = Dash::solid;  ///< with `color` unique among 36 runs

  /// "A matched", shortened where the name is long.
  [[nodiscard]] std::string label() const;
};

/// `runs` outlives the result.
[[nodiscard]] std::vector<Compared> side_by_side(const std::vector<RunData>& runs);

/// The shortest ends of the paths, in whole parts, that differ from each other; equal paths stay equal.
[[nodiscard]] std::vector<std::string> distinct_names(const std::vector<std::string>& paths);

/// "A matched, B mixed and C bf16".
[[nodiscard]] std::string list_of(const std::vector<std::string>& words);

}  // namespace minite::diagnostics
