#pragma once
// summary.json, computed from the logs of a run.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rl/run_config.h"

namespace minite::rl {

struct SummaryInput {
  const RunConfig& config;
  std::string backend;           ///< the table that ran
  std::string final_checkpoint;  ///< relative to the run folder
};

/// reward_first and reward_last are means over the first and last 20 RL steps; gap_max and gap_mean over all
/// RL steps (gap_mean weighs steps equally); tokens_per_s counts sampled and learned tokens over the time of
/// the RL steps; contrast_gap_mean is there when a contrast ran.
[[nodiscard]] nlohmann::json summarize(const std::filesystem::path& run, const SummaryInput& input);

}  // namespace minite::rl
