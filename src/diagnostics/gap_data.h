#pragma once
// What `minite gap --json` printed, as its page needs it.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace minite::diagnostics {

/// One cell of the grid.
struct GapCellData {
  std::string learner, sampler, learner_kv, kv_cache, replay;
  double mean_abs = 0, max_abs = 0;  ///< NaN when a token's gap is not finite
  int64_t tokens = 0, non_finite = 0;
  std::vector<std::pair<std::string, std::string>> causes;  ///< field, sentence
  std::string report;                                       ///< "0.169 (Table 1)" or empty
  nlohmann::json details;                                   ///< null when no token has a finite gap

  /// "bf16 / nvfp4_per_token", with the mode of router replay where it is not off, and the formats of
  /// keys and values where one is not bf16.
  [[nodiscard]] std::string label() const;
};

struct GapData {
  std::string checkpoint, data, policy, backend, drawn_by;
  int64_t responses = 0, tokens = 0, problems = 0, samples = 0, seed = 0, experts = 0;
  double temperature = 1, reward = 0;
  int64_t redrawn = 0;
  std::vector<GapCellData> cells;
};

/// Error: corrupt_data, which names `origin`, for a document that is no result of `minite gap`.
[[nodiscard]] GapData read_gap(const nlohmann::json& document, const std::string& origin);

}  // namespace minite::diagnostics
