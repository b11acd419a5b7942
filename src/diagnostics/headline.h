#pragma once
// The numbers that stand for a run, from summary.json or, while it is not there, from the logs.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "diagnostics/run_data.h"

namespace minite::diagnostics {

struct Headline {
  std::optional<double> reward_first, reward_last;  ///< means over the first and last `window` RL steps
  int64_t window = 0;
  std::optional<double> gap_mean, gap_max;     ///< of the RL stage, nats
  std::optional<double> contrast_gap_mean;     ///< nats
  std::optional<double> tokens_per_s;          ///< of the RL stage
  std::map<std::string, int64_t> stage_steps;  ///< lines of each stage
  std::map<std::string, double> stage_seconds;
  int64_t steps = 0;
};

[[nodiscard]] Headline headline(const RunData& run);

/// Mean reward of the last 20 RL steps up to `step`.
[[nodiscard]] std::optional<double> reward_at(const RunData& run, double step);

/// Names of the stages in the order of a run.
inline constexpr std::array<std::string_view, 3> kStages = {"sft", "rl", "contrast"};

/// nullptr when the run has no such column.
[[nodiscard]] const Column* column_of(const RunData& run, std::string_view stage, std::string_view metric);

/// "exactly 0" or the number.
[[nodiscard]] std::string gap_text(double gap);

/// Settings under all the names that they have had, as the pages call them.
struct HeadlineRow {
  std::string_view title;
  std::array<std::string_view, 4> keys;
};
inline constexpr HeadlineRow kLearnerRecipe = {"Learner recipe",
                                               {"learner_recipe", "learner.recipe", "recipe", ""}};
inline constexpr HeadlineRow kSamplerRecipe = {"Sampler recipe",
                                               {"sampler_recipe", "sampler.recipe", "recipe", ""}};
inline constexpr HeadlineRow kSamplerKv = {"KV cache (sampler)", {"kv_cache", "sampler.kv_cache", "", ""}};
inline constexpr HeadlineRow kLearnerKv = {"KV (learner)", {"learner_kv", "learner.kv", "", ""}};
inline constexpr std::array<HeadlineRow, 13> kProvenance = {{
    {"miniTE version", {"minite_version", "version", "", ""}},
    {"Revision", {"revision", "git_revision", "", ""}},
    {"Preset", {"preset", "", "", ""}},
    {"Model", {"model", "model.name", "arch", "model.arch"}},
    kLearnerRecipe,
    kSamplerRecipe,
    kSamplerKv,
    kLearnerKv,
    {"Backend", {"backend", "", "", ""}},
    {"Device", {"device", "", "", ""}},
    {"Plan policy", {"policy", "plan_policy", "sampler_policy", ""}},
    {"Threads", {"threads", "", "", ""}},
    {"Seed", {"seed", "", "", ""}},
}};
/// The value of a row for a run; nothing when no name of it is set.
[[nodiscard]] std::optional<std::string> setting(const RunData& run, const HeadlineRow& row);

}  // namespace minite::diagnostics
