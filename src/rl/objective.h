#pragma once
// Table of policy losses: one row, one pure function from the tokens of a response to their loss terms.
// A row sees a whole response, so that sequence-level objectives fit as well.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

/// The tokens of one response.
struct ResponseView {
  std::span<const double> logp_live;
  std::span<const double> logp_old;
  std::span<const double> advantage;
  std::span<const std::uint8_t> mask;
};

/// Loss of one valid token before its weights.
struct TokenTerm {
  double loss = 0.0;
  double gradient = 0.0;  ///< d loss / d logp_live
  double ratio = 1.0;
  bool clipped = false;
  bool clipped_lower = false;
};

void vanilla_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out);

struct LossModeRow {
  LossMode id;
  std::string_view name;
  std::string_view definition;
  /// Writes `out` at valid positions; `out` is as long as the response.
  void (*terms)(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out);
};

inline constexpr std::array<LossModeRow, 1> kLossModes = {{
    {LossMode::vanilla, "vanilla",
     "PPO clip: max(-r A, -clip(r, 1 - clip_ratio_low, 1 + clip_ratio_high) A), for A < 0 at most "
     "-clip_ratio_c A",
     vanilla_terms},
}};
static_assert(rows_in_enum_order(kLossModes));

inline constexpr std::array<ObjectivePreset, 2> kObjectives = {{
    {"grpo", "group-normalised advantage, PPO clip, mean inside a response, then over responses",
     AdvEstimator::grpo, LossMode::vanilla, LossAggMode::seq_mean_token_mean},
    {"dr_grpo",
     "advantage without division by std, PPO clip, token sum / loss_scale_factor, mean over responses",
     AdvEstimator::dr_grpo, LossMode::vanilla, LossAggMode::seq_mean_token_sum_norm},
}};

}  // namespace minite::rl
