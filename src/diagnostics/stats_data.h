#pragma once
// stats.jsonl read back: series of a tensor over the steps of a stage, and what stands out in them.
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "diagnostics/statistics.h"

namespace minite::diagnostics {

/// One line of stats.jsonl.
struct StatRow {
  int64_t global_step = 0, step = 0;
  std::string stage, side, module, tensor;  ///< module with "layers.N." before it
  int64_t layer = -1, expert = -1;
  int64_t count = 0;
  std::map<std::string, double> values;  ///< by statistic; NaN or infinite where the line says so
  std::vector<std::pair<int, int64_t>> histogram;

  /// Whether it is the same tensor at another step.
  [[nodiscard]] bool same_tensor(const StatRow& other) const;
  /// The value of a statistic, or nullptr when the line has none.
  [[nodiscard]] const double* find(std::string_view statistic) const;
};

/// Lines in the order of the file; a cut last line is left out. Errors: not_found when the run has no
/// stats.jsonl (the message says how to get one); corrupt_data "FILE:LINE: ...".
[[nodiscard]] std::vector<StatRow> read_stats(const std::filesystem::path& run);

/// A tensor over the steps of one stage.
using StatSeries = std::vector<StatRow>;
/// Series of `stage`, by side, layer, module, tensor and expert; steps ascend in each.
[[nodiscard]] std::vector<StatSeries> series_of(const std::vector<StatRow>& rows, std::string_view stage);

/// The first, the median (the lower of two) and the last value of a statistic that is finite; NaN when there
/// is none.
struct Trend {
  double first, median, last;
};
[[nodiscard]] Trend trend(const StatSeries& series, std::string_view statistic);

/// A value above the limit of a sign, where it is largest in its series.
struct Finding {
  const Sign* sign;
  const StatRow* row;
  double value;
  int64_t steps;  ///< of the series that are above the limit
};
/// By sign in the order of signs(), the largest first. Points into `all`.
[[nodiscard]] std::vector<Finding> findings(const std::vector<StatSeries>& all);

}  // namespace minite::diagnostics
