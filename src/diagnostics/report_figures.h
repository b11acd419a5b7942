#pragma once
// The figures of a run's report: which metrics go into which figure, and what is said when there is nothing
// to draw.
#include <string>
#include <vector>

#include "diagnostics/run_data.h"
#include "diagnostics/svg.h"

namespace minite::diagnostics {

/// A figure of the page, or the sentence that stands in its place.
struct Panel {
  std::string title;
  std::string about;     ///< plain text: what is shown and what to look for
  std::string sentence;  ///< plain text, emphasised; may stand beside a figure
  std::string svg;       ///< empty when nothing is drawn
  std::string csv;
  std::string file_stem;  ///< for downloads: "gap"
  enum class Width : unsigned char { half, wide } width = Width::half;
};

struct Section {
  std::string title;
  std::vector<Panel> panels;
  std::vector<std::string> missing;  ///< sentences on figures left out
};

/// Sections in page order. `id_prefix` keeps ids unique when a page holds several runs.
[[nodiscard]] std::vector<Section> make_sections(const RunData& run, const std::string& id_prefix);

/// Bars of the mean seconds that each part of a step of `stage` took, longest first.
[[nodiscard]] BarGroup time_group(const std::string& stage, const StageData& data, const std::string& title);

}  // namespace minite::diagnostics
