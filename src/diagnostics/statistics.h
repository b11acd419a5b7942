#pragma once
// The table of statistics: what a rule may name, stats.jsonl holds and `minite stats` shows.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/tensor_stats.h"

namespace minite::diagnostics {

/// What was measured of one tensor of one step.
struct TensorStats {
  ValueStats values;
  CodeStats codes;
  [[nodiscard]] bool has_codes() const { return codes.loss.error.count > 0; }
};

/// One row. Names are those of nvdlfw_inspect where it has the statistic.
struct Statistic {
  std::string_view name;
  std::string_view alias;  ///< another word for it, or empty
  bool of_codes;           ///< needs codes: activations, weights and gradients that the recipe quantizes
  bool usual;              ///< taken by default
  std::string_view unit;
  std::string_view formula;
  double (*get)(const TensorStats&);  ///< nullptr: not a number (the histogram)
};
[[nodiscard]] std::span<const Statistic> statistics();
/// nullptr when no row has this name or alias.
[[nodiscard]] const Statistic* find_statistic(std::string_view name);
/// Names of all rows.
[[nodiscard]] std::vector<std::string_view> statistic_names();

/// The histogram of block scales: its row in the table, and its key in stats.jsonl.
inline constexpr std::string_view kScaleHistogram = "scale_histogram";

/// A sign of trouble that `minite stats` names: the statistic above `limit`.
struct Sign {
  std::string_view statistic;
  double limit;
  std::string_view means;
};
[[nodiscard]] std::span<const Sign> signs();

}  // namespace minite::diagnostics
