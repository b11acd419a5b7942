#pragma once
// Table of rollout_rs: which statistic of a response rejects its tokens. A row is a divergence of one token,
// a reduction over the response and the way its threshold is spelled. Source: verl rollout_corr_helper.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

/// Turns the divergences of the valid tokens of a response into the statistic of each, in place.
using Reduction = void (*)(std::span<double> values);
void per_token(std::span<double> values);
void sum_over_response(std::span<double> values);
void mean_over_response(std::span<double> values);
void max_over_response(std::span<double> values);

double divergence_k1(double x);
double divergence_k2(double x);
double divergence_k3(double x);

struct Bounds {
  double low, high;
};
/// From the text of a threshold to bounds of the statistic; `whole` is what the user wrote.
using BoundsParser = Bounds (*)(std::string_view text, std::string_view whole);
Bounds ratio_bounds(std::string_view text, std::string_view whole);
Bounds upper_bound_only(std::string_view text, std::string_view whole);
Bounds least_ratio(std::string_view text, std::string_view whole);

struct RolloutRsRow {
  RolloutRs id;
  std::string_view name;
  std::string_view definition;
  double (*divergence)(double x);  ///< x = l_old - l_sampler, clamped to +-20
  Reduction reduce;
  BoundsParser parse;
};

inline constexpr std::array<RolloutRsRow, 12> kRolloutRs = {{
    {RolloutRs::token_k1, "token_k1", "keeps tokens with 1 / rho_t in [lo, hi]", divergence_k1, per_token,
     ratio_bounds},
    {RolloutRs::token_k2, "token_k2", "keeps tokens with x^2 / 2 <= hi, x = l_old - l_sampler", divergence_k2,
     per_token, upper_bound_only},
    {RolloutRs::token_k3, "token_k3", "keeps tokens with exp(x) - x - 1 <= hi", divergence_k3, per_token,
     upper_bound_only},
    {RolloutRs::seq_sum_k1, "seq_sum_k1", "keeps responses whose product of 1 / rho_t is in [lo, hi]",
     divergence_k1, sum_over_response, ratio_bounds},
    {RolloutRs::seq_sum_k2, "seq_sum_k2", "keeps responses whose sum of k2 is <= hi", divergence_k2,
     sum_over_response, upper_bound_only},
    {RolloutRs::seq_sum_k3, "seq_sum_k3", "keeps responses whose sum of k3 is <= hi", divergence_k3,
     sum_over_response, upper_bound_only},
    {RolloutRs::seq_mean_k1, "seq_mean_k1",
     "keeps responses whose geometric mean of 1 / rho_t is in [lo, hi] (geometric rejection)", divergence_k1,
     mean_over_response, ratio_bounds},
    {RolloutRs::seq_mean_k2, "seq_mean_k2", "keeps responses whose mean k2 is <= hi", divergence_k2,
     mean_over_response, upper_bound_only},
    {RolloutRs::seq_mean_k3, "seq_mean_k3", "keeps responses whose mean k3 is <= hi", divergence_k3,
     mean_over_response, upper_bound_only},
    {RolloutRs::seq_max_k2, "seq_max_k2", "keeps responses whose largest k2 is <= hi", divergence_k2,
     max_over_response, upper_bound_only},
    {RolloutRs::seq_max_k3, "seq_max_k3", "keeps responses whose largest k3 is <= hi", divergence_k3,
     max_over_response, upper_bound_only},
    {RolloutRs::veto, "veto", "drops responses that hold a token with rho_t < lo, e.g. 1e-4", divergence_k1,
     max_over_response, least_ratio},
}};
static_assert(rows_in_enum_order(kRolloutRs));

/// Clears keep[t] at valid tokens that a rule rejects. Spans are [tokens of the response]; masked positions
/// of `keep` are left alone.
void reject(std::span<const RejectionRule> rules, std::span<const double> logp_old,
            std::span<const double> logp_sampler, std::span<const std::uint8_t> mask,
            std::span<std::uint8_t> keep);

}  // namespace minite::rl
