#pragma once
// Table of loss_agg_mode: the denominator of a token's weighted loss. Weights are in hundredths, so a row
// returns hundredths too and weight / denominator is correctly rounded. Source: verl agg_loss.
#include <array>
#include <cstdint>
#include <string_view>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

/// Exact integers (below 2^53) held as double, and the horizon.
struct Denominators {
  double response_units;  ///< sum of weights of this response, hundredths
  double total_units;     ///< the same of the whole update
  double responses;       ///< N
  double scale_factor;    ///< seq-mean-token-sum-norm only
};

struct LossAggRow {
  LossAggMode id;
  std::string_view name;
  std::string_view definition;
  double (*denominator)(const Denominators& d);
  bool needs_scale_factor;
};

inline constexpr std::array<LossAggRow, 5> kLossAggModes = {{
    {LossAggMode::token_mean, "token-mean", "sum of w L over all tokens / sum of w over all tokens",
     [](const Denominators& d) { return d.total_units; }, false},
    {LossAggMode::token_sum, "token-sum", "sum of w L over all tokens",
     [](const Denominators&) { return 100.0; }, false},
    {LossAggMode::seq_mean_token_sum, "seq-mean-token-sum", "mean over responses of the sum of w L",
     [](const Denominators& d) { return 100.0 * d.responses; }, false},
    {LossAggMode::seq_mean_token_sum_norm, "seq-mean-token-sum-norm",
     "mean over responses of the sum of w L, / loss_scale_factor",
     [](const Denominators& d) { return 100.0 * d.responses * d.scale_factor; }, true},
    {LossAggMode::seq_mean_token_mean, "seq-mean-token-mean",
     "mean over responses of (sum of w L / sum of w)",
     [](const Denominators& d) { return d.response_units * d.responses; }, false},
}};
static_assert(rows_in_enum_order(kLossAggModes));

}  // namespace minite::rl
