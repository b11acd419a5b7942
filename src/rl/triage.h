#pragma once
// TRIAGE: Gate (a detached weight per token, in integer hundredths) and Repair (a penalty per window).
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

struct NormalizationRow {
  Normalization id;
  std::string_view name;
  std::string_view definition;
  LossAggMode loss_agg_mode;  ///< the only aggregation that means the same
};

inline constexpr std::array<NormalizationRow, 2> kNormalizations = {{
    {Normalization::response, "response",
     "(1/N) sum_i (sum_t w L / sum_t w): the report; a uniform weight inside a response cancels",
     LossAggMode::seq_mean_token_mean},
    {Normalization::global, "global",
     "sum w L / sum w over the update: the public TRIAGE code; an attenuated response loses influence",
     LossAggMode::token_mean},
}};
static_assert(rows_in_enum_order(kNormalizations));

struct GateScopeRow {
  GateScope id;
  std::string_view name;
  std::string_view definition;
  bool (*token)(double delta);  ///< does a token with this gap get the window's weight?
};

inline constexpr std::array<GateScopeRow, 2> kGateScopes = {{
    {GateScope::q3, "q3", "only tokens with a negative gap in windows with negative mean advantage",
     [](double delta) { return delta < 0.0; }},
    {GateScope::whole, "whole", "all valid tokens in windows with negative mean advantage",
     [](double) { return true; }},
}};
static_assert(rows_in_enum_order(kGateScopes));

struct RepairScopeRow {
  RepairScope id;
  std::string_view name;
  std::string_view definition;
  bool (*segment)(double mean_advantage);
  bool (*token)(double delta);
};

inline constexpr std::array<RepairScopeRow, 3> kRepairScopes = {{
    {RepairScope::adv_positive, "adv_positive", "all valid tokens of windows with positive mean advantage",
     [](double a) { return a > 0.0; }, [](double) { return true; }},
    {RepairScope::whole, "whole", "all valid tokens of every window", [](double) { return true; },
     [](double) { return true; }},
    {RepairScope::q2, "q2",
     "tokens with a negative live gap in windows with positive mean advantage; the window's mean counts all",
     [](double a) { return a > 0.0; }, [](double delta) { return delta < 0.0; }},
}};
static_assert(rows_in_enum_order(kRepairScopes));

/// Gate weights of one response in hundredths; 0 at masked positions. All spans are [tokens of it].
void gate_units(const GateConfig& config, std::span<const double> logp_old,
                std::span<const double> logp_sampler, std::span<const double> advantage,
                std::span<const std::uint8_t> mask, std::span<std::uint8_t> units);

/// Appends the windows of tokens [begin, end) of the batch that hold a valid token.
void append_repair_segments(const Batch& batch, std::int64_t begin, std::int64_t end, std::int64_t size,
                            std::vector<RepairSegment>& out);

/// Penalty and force of a window whose mean live gap is `mean_delta`; both 0 when it is above target.
struct RepairValue {
  double q = 0.0;
  double penalty = 0.0;  ///< phi(q)
  double force = 0.0;    ///< -d phi / d mean_delta = q / sqrt(1 + (q / beta)^2), below beta
};
RepairValue repair_value(const RepairConfig& config, double mean_delta);

/// Adds the Repair loss of one window to `sums` and its gradient to `dlogp`. `logp_live` and `dlogp` are
/// [tokens of the window]. `segments` is S, `coef` the effective coefficient. Returns coef * phi / S.
double evaluate_repair(const Batch& batch, const RepairConfig& config, const RepairSegment& segment,
                       double segments, double coef, std::span<const double> logp_live,
                       std::span<double> dlogp, MetricSums& sums);

}  // namespace minite::rl
