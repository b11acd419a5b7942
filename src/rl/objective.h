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
void gspo_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out);
void cispo_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out);
void geo_mean_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out);
void sapo_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out);

struct LossModeRow {
  LossMode id;
  std::string_view name;
  std::string_view definition;
  /// Writes `out` at valid positions; `out` is as long as the response.
  void (*terms)(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out);
  bool dual_clip;  ///< clip_ratio_c has a meaning
};

inline constexpr std::array<LossModeRow, 5> kLossModes = {{
    {LossMode::vanilla, "vanilla",
     "PPO clip: max(-r A, -clip(r, 1 - clip_ratio_low, 1 + clip_ratio_high) A), for A < 0 at most "
     "-clip_ratio_c A",
     vanilla_terms, true},
    {LossMode::gspo, "gspo",
     "the same clip of s = exp(mean over the response of log r), log s at most 10; straight-through gradient "
     "-s A of each token",
     gspo_terms, false},
    {LossMode::cispo, "cispo",
     "-c A l with c = clip(r, 1 - clip_ratio_low, 1 + clip_ratio_high) held constant; no lower bound when "
     "clip_ratio_low >= 1",
     cispo_terms, false},
    {LossMode::geo_mean, "geo_mean",
     "-A exp(mean over the response of x), x = log r held at clip_ratio_high for A > 0 and at "
     "-clip_ratio_low "
     "for A < 0",
     geo_mean_terms, false},
    {LossMode::sapo, "sapo",
     "-A sigmoid(tau (r - 1)) 4 / tau with tau_pos for A > 0 and tau_neg for A <= 0: a soft clip", sapo_terms,
     false},
}};
static_assert(rows_in_enum_order(kLossModes));

inline constexpr std::array<ObjectivePreset, 7> kObjectives = {{
    {"grpo", "group-normalised advantage, PPO clip, mean inside a response, then over responses",
     AdvEstimator::grpo, LossMode::vanilla, LossAggMode::seq_mean_token_mean, 0.2, 0.28},
    {"dr_grpo",
     "advantage without division by std, PPO clip, token sum / loss_scale_factor, mean over responses",
     AdvEstimator::dr_grpo, LossMode::vanilla, LossAggMode::seq_mean_token_sum_norm, 0.2, 0.2},
    {"dapo", "group-normalised advantage, PPO clip with a higher upper bound, mean over all tokens",
     AdvEstimator::grpo, LossMode::vanilla, LossAggMode::token_mean, 0.2, 0.28},
    {"gspo", "group-normalised advantage, clip of the geometric-mean ratio of a response (arXiv:2507.18071)",
     AdvEstimator::grpo, LossMode::gspo, LossAggMode::seq_mean_token_mean, 3e-4, 4e-4},
    {"cispo",
     "group-normalised advantage, detached clipped ratio without a lower bound, mean over all tokens",
     AdvEstimator::grpo, LossMode::cispo, LossAggMode::token_mean, 1.0, 0.28},
    {"gmpo", "group-normalised advantage, geometric mean of clipped ratios of a response (arXiv:2507.20673)",
     AdvEstimator::grpo, LossMode::geo_mean, LossAggMode::seq_mean_token_mean, 0.4, 0.4},
    {"sapo", "group-normalised advantage, sigmoid in the place of the clip (arXiv:2511.20347)",
     AdvEstimator::grpo, LossMode::sapo, LossAggMode::seq_mean_token_mean, 0.2, 0.28},
}};

}  // namespace minite::rl
