#pragma once
// A run folder read back into columns.
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace minite::diagnostics {

/// One metric over the steps of one stage.
struct Column {
  std::vector<double> step;
  std::vector<double> value;  ///< NaN or infinite where the line says so
  int64_t nonfinite = 0;
};

struct StageData {
  int64_t lines = 0;  ///< lines of metrics.jsonl
  std::map<std::string, Column> metrics;
  struct Seconds {
    double sum = 0;
    int64_t steps = 0;
  };
  std::map<std::string, Seconds> seconds;  ///< by component, from timings.jsonl
  Column throughput;                       ///< tokens of a step divided by its seconds

  /// nullptr when the stage has no such metric.
  [[nodiscard]] const Column* find(std::string_view metric) const;
};

struct RunData {
  std::string name;                         ///< last part of the path
  std::string path;                         ///< as it was given
  std::map<std::string, StageData> stages;  ///< by the "stage" of the lines
  nlohmann::json summary;                   ///< an object, or null when the run has not finished
  std::string config;                       ///< text of config.yaml
  std::vector<std::pair<std::string, std::string>> config_settings;  ///< its scalars by dotted path, in order
  nlohmann::json plans;  ///< plans.json: by stage, a sentence for each product; or null
  /// Scalars of config.yaml and, taking precedence, summary.json, by their last key ("seed") and by their
  /// dotted path ("learner.recipe").
  std::map<std::string, std::string> settings;
  std::vector<std::string> notes;  ///< sentences on what is missing or was cut

  /// nullptr when the run has no such stage.
  [[nodiscard]] const StageData* find(std::string_view stage) const;
  /// The first of `keys` that is set.
  [[nodiscard]] std::optional<std::string> setting(const std::vector<std::string_view>& keys) const;
};

/// Reads metrics.jsonl (required) and timings.jsonl, summary.json and config.yaml (each optional, with a note
/// when missing), and plans.json when it is there. Errors: not_found when there is no metrics.jsonl;
/// corrupt_data "FILE:LINE: ..." for a damaged line, except a cut last line, which becomes a note.
[[nodiscard]] RunData read_run(const std::filesystem::path& run);

}  // namespace minite::diagnostics
