// Validation of LossConfig.
#include <cmath>

#include "core/fail.h"
#include "rl/aggregation.h"
#include "rl/correction.h"
#include "rl/objective.h"
#include "rl/rejection.h"
#include "rl/triage.h"

namespace minite::rl {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000'000;  // keeps products of counts far from overflow

void check_number(std::string_view name, double value, bool in_range, std::string_view range) {
  require(std::isfinite(value) && in_range, "{} = {}: must be {}", name, value, range);
}

void check_count(std::string_view name, std::int64_t value) {
  require(value >= 1 && value <= kMaxCount, "{} = {}: must be between 1 and {}", name, value, kMaxCount);
}

// Weights are summed as integer hundredths, so that the denominator does not depend on the order of tokens.
void check_weight(std::string_view name, double w) {
  check_number(name, w, w > 0.0 && w <= 1.0, "in (0, 1]");
  const double hundredths = w * 100.0;
  require(std::abs(hundredths - std::round(hundredths)) < 1e-9, "{} = {}: must be a multiple of 0.01", name,
          w);
}

void check_gate(const GateConfig& gate) {
  check_count("gate size", gate.size);
  check_count("gate bad_count_full", gate.bad_count_full);
  check_number("gate neg_delta", gate.neg_delta, gate.neg_delta <= 0.0, "a finite number <= 0");
  check_number("gate severe_delta", gate.severe_delta, gate.severe_delta <= gate.neg_delta,
               fmt::format("finite and <= neg_delta ({})", gate.neg_delta));
  check_number("gate bad_delta", gate.bad_delta, gate.bad_delta < 0.0, "a finite number < 0");
  check_number("gate neg_adv_max", gate.neg_adv_max, gate.neg_adv_max <= 0.0,
               "a finite number <= 0 (a response with advantage 0 is never gated)");
  check_weight("gate neg_weight", gate.neg_weight);
  check_weight("gate severe_weight", gate.severe_weight);
  require(gate.severe_weight <= gate.neg_weight, "gate severe_weight = {}: must not exceed neg_weight = {}",
          gate.severe_weight, gate.neg_weight);
}

void check_repair(const RepairConfig& repair) {
  check_count("repair size", repair.size);
  check_number("repair coef", repair.coef, repair.coef >= 0.0, "a finite number >= 0");
  check_number("repair huber_beta", repair.huber_beta, repair.huber_beta > 0.0, "a finite number > 0");
  check_number("repair target", repair.target, repair.target <= 0.0,
               "a finite number <= 0 (a gap of 0 must need no repair)");
  require(repair.start_step >= 0, "repair start_step = {}: must be >= 0", repair.start_step);
}

void check_rejection(const LossConfig& config) {
  require(!config.rollout_is_batch_normalize || row_of(kRolloutIs, config.rollout_is).applied,
          "rollout_is_batch_normalize has no meaning with rollout_is={}: there are no weights to normalize",
          name_of(config.rollout_is));
  for (const RejectionRule& rule : config.rollout_rs) {
    require(rule.low <= rule.high, "rollout_rs {}: the range [{}, {}] of the statistic is empty",
            row_of(kRolloutRs, rule.statistic).name, rule.low, rule.high);
  }
}

void check_pair(const LossConfig& config) {
  if (!config.triage.enabled()) return;
  const NormalizationRow& row = row_of(kNormalizations, config.triage.normalization);
  require(config.loss_agg_mode == row.loss_agg_mode,
          "normalization={} goes with loss_agg_mode={}, not loss_agg_mode={}; change one of the two, or turn "
          "TRIAGE off",
          row.name, name_of(row.loss_agg_mode), name_of(config.loss_agg_mode));
}

void check_scale_factor(const LossConfig& config) {
  const LossAggRow& row = row_of(kLossAggModes, config.loss_agg_mode);
  if (!row.needs_scale_factor) {
    require(!config.loss_scale_factor, "loss_scale_factor has no meaning with loss_agg_mode={}; leave it out",
            row.name);
    return;
  }
  require(config.loss_scale_factor.has_value(),
          "loss_agg_mode={} needs loss_scale_factor, e.g. the maximum response length", row.name);
  check_number("loss_scale_factor", *config.loss_scale_factor, *config.loss_scale_factor > 0.0,
               "a finite number > 0");
}

}  // namespace

void validate(const LossConfig& config) {
  check_number("clip_ratio_low", config.clip_ratio_low, config.clip_ratio_low >= 0.0, "a finite number >= 0");
  check_number("clip_ratio_high", config.clip_ratio_high, config.clip_ratio_high >= 0.0,
               "a finite number >= 0");
  if (config.clip_ratio_c) {
    check_number("clip_ratio_c", *config.clip_ratio_c, *config.clip_ratio_c > 1.0,
                 "a finite number > 1 (3 is usual), or left out");
    const LossModeRow& mode = row_of(kLossModes, config.loss_mode);
    require(mode.dual_clip, "clip_ratio_c = {} has no meaning with loss_mode={}; leave it out or change one",
            *config.clip_ratio_c, mode.name);
  }
  check_number("tau_pos", config.tau_pos, config.tau_pos > 0.0, "a finite number > 0");
  check_number("tau_neg", config.tau_neg, config.tau_neg > 0.0, "a finite number > 0");
  if (config.opsm_delta)
    check_number("opsm_delta", *config.opsm_delta, *config.opsm_delta >= 0.0, "a finite number >= 0");
  require(!config.bypass_mode || !row_of(kRolloutIs, config.rollout_is).applied,
          "bypass_mode=true puts l_sampler in the place of l_old, so rollout_is={} would correct twice; set "
          "rollout_is=none, or bypass_mode=false",
          name_of(config.rollout_is));
  const IsThreshold& threshold = config.rollout_is_threshold;
  check_number("rollout_is_threshold low", threshold.low, threshold.low >= 0.0, "a finite number >= 0");
  check_number("rollout_is_threshold high", threshold.high,
               threshold.high > 0.0 && threshold.high >= threshold.low,
               fmt::format("a finite number > 0 and >= low ({})", threshold.low));
  check_number("entropy_coef", config.entropy_coef, config.entropy_coef >= 0.0, "a finite number >= 0");
  check_number("kl_loss_coef", config.kl_loss_coef, config.kl_loss_coef >= 0.0, "a finite number >= 0");
  check_scale_factor(config);
  check_rejection(config);
  check_gate(config.triage.gate);
  check_repair(config.triage.repair);
  check_pair(config);
}

}  // namespace minite::rl
