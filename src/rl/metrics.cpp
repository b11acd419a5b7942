// The metric table of the loss: one row per number that it reports. step_metrics.h has the others.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/fail.h"
#include "minite/rl.h"
#include "rl/step_metrics.h"

namespace minite::rl {
namespace {

struct Inputs {
  const Prepared& prepared;
  const MetricSums& sums;

  [[nodiscard]] double per_token(double sum) const { return sum / static_cast<double>(sums.tokens); }
  [[nodiscard]] double per_segment(double sum) const {
    return sum / static_cast<double>(prepared.totals.repair_segments);
  }
  [[nodiscard]] double token_weight_mean() const {
    return static_cast<double>(prepared.totals.weight_units) /
           (100.0 * static_cast<double>(prepared.totals.tokens));
  }
};

// When a row has a value.
using Applies = bool (*)(const Inputs& in);
bool always(const Inputs&) { return true; }
bool with_entropy(const Inputs& in) { return in.sums.entropy_tokens > 0; }
bool with_kl(const Inputs& in) { return in.sums.kl_tokens > 0; }
bool with_dual_clip(const Inputs& in) { return in.prepared.config.clip_ratio_c.has_value(); }
bool with_opsm(const Inputs& in) { return in.prepared.config.opsm_delta.has_value(); }
bool with_rejection(const Inputs& in) { return !in.prepared.config.rollout_rs.empty(); }
bool with_triage(const Inputs& in) { return in.prepared.config.triage.enabled(); }
bool with_gate(const Inputs& in) { return in.prepared.config.triage.gate.enable; }
bool with_repair(const Inputs& in) { return in.prepared.config.triage.repair.enable; }

struct Row {
  MetricInfo info;
  Applies applies;
  double (*value)(const Inputs& in);
  double GapStats::*gap = nullptr;  ///< rows of the gap have this and no `value`
};

constexpr Direction kNeutral = Direction::neutral;
constexpr Direction kLower = Direction::lower;
constexpr Direction kHigher = Direction::higher;
constexpr MetricStages kPolicy = MetricStages::policy;
constexpr std::string_view kAny = "any", kPositive = ">= 0", kShare = "[0, 1]";
constexpr std::string_view kZeroWhenMatched = "exactly 0 with matched recipes";
constexpr std::string_view kOneWhenMatched = "exactly 1 with matched recipes";
constexpr std::string_view kInert = "0: TRIAGE has nothing to act on at gap 0";
constexpr std::string_view kTriage = "TRIAGE (arXiv:2610.07043)";
constexpr std::string_view kOurs = "miniTE";
constexpr std::string_view kNeedsKl = "rl.kl_loss_coef > 0";
constexpr std::string_view kNeedsDualClip = "rl.clip_ratio_c > 1";
constexpr std::string_view kNeedsOpsm = "rl.opsm_delta > 0";
constexpr std::string_view kNeedsRejection = "rl.rollout_rs is not none";
constexpr std::string_view kNeedsTriage = "rl.triage is on";

constexpr std::array kMetrics = {
    Row{{"loss",
         "pg_loss + triage_repair_contribution - entropy_coef * entropy_loss + kl_loss_coef * kl_loss", "1",
         kNeutral, kPolicy, kAny, "its size and sign say nothing: rewards are centred", "train/loss"},
        always,
        [](const Inputs& in) { return in.sums.loss; }},
    Row{{"pg_loss", "policy loss, weighted and aggregated by loss_agg_mode", "1", kNeutral, kPolicy, kAny,
         "near 0 with one update a rollout", "train/pg_loss", "actor/pg_loss"},
        always,
        [](const Inputs& in) { return in.sums.pg_loss; }},
    Row{{"entropy_loss", "entropy of the learner, aggregated by loss_agg_mode without weights", "nat",
         kNeutral, kPolicy, kPositive, "falls slowly; near 0 the policy has stopped to explore",
         "train/entropy_loss", "actor/entropy"},
        with_entropy,
        [](const Inputs& in) { return in.sums.entropy_loss; }},
    Row{{"kl_loss", "kl_loss_type against the frozen reference, aggregated by loss_agg_mode without weights",
         "nat", kNeutral, kPolicy, kAny, "exactly 0 at the first update, then bounded", "train/kl_loss",
         "actor/kl_loss", "", kNeedsKl},
        with_kl,
        [](const Inputs& in) { return in.sums.kl_loss; }},
    Row{{"ppo_kl", "mean over tokens of l_old - l", "nat", kNeutral, kPolicy, kAny,
         "exactly 0 with one update a rollout", "train/ppo_kl", "actor/ppo_kl"},
        always,
        [](const Inputs& in) { return in.per_token(in.sums.ppo_kl); }},
    Row{{"pg_clipfrac", "share of tokens whose ratio (of loss_mode) is clipped", "1", kNeutral, kPolicy,
         kShare, "exactly 0 with one update a rollout", "train/pg_clipfrac", "actor/pg_clipfrac"},
        always,
        [](const Inputs& in) { return in.per_token(static_cast<double>(in.sums.clipped)); }},
    Row{{"pg_clipfrac_lower", "share of tokens held by the dual clip (clip_ratio_c)", "1", kNeutral, kPolicy,
         kShare, "near 0", "", "actor/pg_clipfrac_lower", "", kNeedsDualClip},
        with_dual_clip,
        [](const Inputs& in) { return in.per_token(static_cast<double>(in.sums.clipped_lower)); }},
    Row{{"train_rollout_logprob_abs_diff",
         "mean over valid tokens of |l_old - l_sampler|, before any rejection", "nat", kLower, kPolicy,
         kPositive, kZeroWhenMatched, "train/train_rollout_logprob_abs_diff"},
        always,
        nullptr,
        &GapStats::abs_mean},
    Row{{"gap_max", "largest |l_old - l_sampler| of a token", "nat", kLower, kPolicy, kPositive,
         kZeroWhenMatched, "", "", kOurs},
        always,
        nullptr,
        &GapStats::abs_max},
    Row{{"gap_response_max", "largest mean |l_old - l_sampler| of a response", "nat", kLower, kPolicy,
         kPositive, kZeroWhenMatched, "", "", kOurs},
        always,
        nullptr,
        &GapStats::response_max},
    Row{{"gap_response_q95", "95 % quantile over responses of their mean |l_old - l_sampler|", "nat", kLower,
         kPolicy, kPositive, kZeroWhenMatched, "", "", kOurs},
        always,
        nullptr,
        &GapStats::response_q95},
    Row{{"gap_response_q50", "median over responses of their mean |l_old - l_sampler|", "nat", kLower,
         kPolicy, kPositive,
         "exactly 0 with matched recipes; far below gap_response_max a few responses hold the gap", "", "",
         kOurs},
        always,
        nullptr,
        &GapStats::response_q50},
    Row{{"gap_q05", "5 % quantile of l_old - l_sampler", "nat", kHigher, kPolicy, kAny,
         "0 with matched recipes; a long negative tail is the first sign of trouble", "", "", kOurs},
        always,
        nullptr,
        &GapStats::q05},
    Row{{"gap_q01", "1 % quantile of l_old - l_sampler", "nat", kHigher, kPolicy, kAny, "as gap_q05", "", "",
         kOurs},
        always,
        nullptr,
        &GapStats::q01},
    Row{{"gap_tail_fraction", "share of tokens with l_old - l_sampler < -6", "1", kLower, kPolicy, kShare,
         kZeroWhenMatched, "", "", kOurs},
        always,
        nullptr,
        &GapStats::tail_fraction},
    Row{{"gap_within_fraction", "share of tokens with |l_old - l_sampler| < 0.05", "1", kHigher, kPolicy,
         kShare, kOneWhenMatched, "", "", kOurs},
        always,
        nullptr,
        &GapStats::within_fraction},
    Row{{"mismatch_kl", "k1 = mean of l_sampler - l_old, estimates KL(sampler || learner), may be negative",
         "nat", kLower, kPolicy, kAny, kZeroWhenMatched, "train/mis_kl", "rollout_corr/kl"},
        always,
        nullptr,
        &GapStats::k1},
    Row{{"mismatch_k2_kl", "k2 = mean of (l_old - l_sampler)^2 / 2", "nat", kLower, kPolicy, kPositive,
         kZeroWhenMatched, "", "", kOurs},
        always,
        nullptr,
        &GapStats::k2},
    Row{{"mismatch_k3_kl", "k3 = mean of exp(x) - x - 1 with x = l_old - l_sampler clamped to +-20", "nat",
         kLower, kPolicy, kPositive, kZeroWhenMatched, "train/mis_k3_kl", "rollout_corr/k3_kl"},
        always,
        nullptr,
        &GapStats::k3},
    Row{{"rollout_probs_diff_mean", "mean of |exp(l_old) - exp(l_sampler)|", "1", kLower, kPolicy, kShare,
         kZeroWhenMatched, "", "training/rollout_probs_diff_mean"},
        always,
        nullptr,
        &GapStats::prob_abs_mean},
    Row{{"rollout_probs_diff_max", "largest |exp(l_old) - exp(l_sampler)|", "1", kLower, kPolicy, kShare,
         kZeroWhenMatched, "", "training/rollout_probs_diff_max"},
        always,
        nullptr,
        &GapStats::prob_abs_max},
    Row{{"rollout_probs_diff_std", "unbiased standard deviation of |exp(l_old) - exp(l_sampler)|", "1",
         kLower, kPolicy, kPositive, kZeroWhenMatched, "", "training/rollout_probs_diff_std"},
        always,
        nullptr,
        &GapStats::prob_abs_std},
    Row{{"rollout_actor_probs_pearson_corr",
         "correlation of exp(l_old) and exp(l_sampler); a side that is constant gives 1 if both agree, else "
         "0",
         "1", kHigher, kPolicy, "[-1, 1]", kOneWhenMatched, "", "training/rollout_actor_probs_pearson_corr",
         ""},
        always,
        nullptr,
        &GapStats::prob_pearson},
    Row{{"token_mult_prob_error", "mean of exp |l_old - l_sampler|", "1", kLower, kPolicy, ">= 1",
         "exactly 1 with matched recipes; an alarm above 1.05", "", "", "NeMo-RL"},
        always,
        nullptr,
        &GapStats::mult_prob_error},
    Row{{"chi2_token", "mean of exp(2 x) - 1 with x = l_old - l_sampler clamped to +-20", "1", kLower,
         kPolicy, kAny, kZeroWhenMatched, "", "rollout_corr/chi2_token", ""},
        always,
        nullptr,
        &GapStats::chi2_token},
    Row{{"chi2_seq", "mean over responses of exp(2 x) - 1 with x = sum of l_old - l_sampler, clamped to +-20",
         "1", kLower, kPolicy, kAny, kZeroWhenMatched, "", "rollout_corr/chi2_seq", ""},
        always,
        nullptr,
        &GapStats::chi2_seq},
    Row{{"training_ppl", "mean over responses of exp(-mean of l_old)", "1", kNeutral, kPolicy, ">= 1",
         "equal to rollout_ppl with matched recipes", "", "rollout_corr/training_ppl", ""},
        always,
        nullptr,
        &GapStats::training_ppl},
    Row{{"rollout_ppl", "mean over responses of exp(-mean of l_sampler)", "1", kNeutral, kPolicy, ">= 1",
         "falls slowly, as entropy_loss", "", "rollout_corr/rollout_ppl", ""},
        always,
        nullptr,
        &GapStats::rollout_ppl},
    Row{{"log_ppl_diff", "mean over responses of the mean of l_sampler - l_old", "nat", kLower, kPolicy, kAny,
         kZeroWhenMatched, "", "rollout_corr/log_ppl_diff", ""},
        always,
        nullptr,
        &GapStats::log_ppl_diff},
    Row{{"log_ppl_abs_diff", "mean over responses of |mean of l_sampler - l_old|", "nat", kLower, kPolicy,
         kPositive, kZeroWhenMatched, "", "rollout_corr/log_ppl_abs_diff", ""},
        always,
        nullptr,
        &GapStats::log_ppl_abs_diff},
    Row{{"ppl_ratio", "mean over responses of exp(mean of l_sampler - l_old)", "1", kLower, kPolicy,
         kPositive, kOneWhenMatched, "", "rollout_corr/ppl_ratio", ""},
        always,
        nullptr,
        &GapStats::ppl_ratio},
    Row{{"ois", "mean ratio of loss_mode: r = exp(l - l_old), of a whole response for gspo and geo_mean", "1",
         kNeutral, kPolicy, kPositive, "exactly 1 with one update a rollout", "train/ois"},
        always,
        [](const Inputs& in) { return in.per_token(in.sums.ratio); }},
    Row{{"tis",
         "mean correction ratio rho = exp(l_old - l_sampler) before its threshold, at the level of "
         "rollout_is",
         "1", kNeutral, kPolicy, kPositive, kOneWhenMatched, "train/tis", "rollout_corr/rollout_is_mean"},
        always,
        [](const Inputs& in) { return in.per_token(in.prepared.is_sums.ratio); }},
    Row{{"tis_clipfrac", "share of tokens whose correction ratio the threshold changed", "1", kLower, kPolicy,
         kShare, kZeroWhenMatched, "train/tis_clipfrac"},
        always,
        [](const Inputs& in) { return in.per_token(static_cast<double>(in.prepared.is_sums.changed)); }},
    Row{{"tis_abs", "mean |rho - 1| before the threshold", "1", kLower, kPolicy, kPositive, kZeroWhenMatched,
         "train/tis_abs"},
        always,
        [](const Inputs& in) { return in.per_token(in.prepared.is_sums.abs_error); }},
    Row{{"rollout_is_std",
         "standard deviation of rho before the threshold; verl holds rho in [1 / C, C] first", "1", kLower,
         kPolicy, kPositive, kZeroWhenMatched, "", "rollout_corr/rollout_is_std"},
        always,
        [](const Inputs& in) {
          const double mean = in.per_token(in.prepared.is_sums.ratio);
          return std::sqrt(std::max(0.0, in.per_token(in.prepared.is_sums.ratio_square) - mean * mean));
        }},
    Row{{"rollout_is_min", "smallest rho before the threshold", "1", kHigher, kPolicy, kPositive,
         kOneWhenMatched, "", "rollout_corr/rollout_is_min"},
        always,
        [](const Inputs& in) { return in.prepared.is_sums.ratio_min; }},
    Row{{"rollout_is_max", "largest rho before the threshold", "1", kLower, kPolicy, kPositive,
         kOneWhenMatched, "", "rollout_corr/rollout_is_max"},
        always,
        [](const Inputs& in) { return in.prepared.is_sums.ratio_max; }},
    Row{{"rollout_is_ratio_fraction_high", "share of tokens whose rho is above the threshold", "1", kLower,
         kPolicy, kShare, kZeroWhenMatched, "", "rollout_corr/rollout_is_ratio_fraction_high"},
        always,
        [](const Inputs& in) { return in.per_token(static_cast<double>(in.prepared.is_sums.above)); }},
    Row{{"rollout_is_ratio_fraction_low",
         "share of tokens whose rho is below the threshold's lower bound; verl takes 1 / C for that bound",
         "1", kLower, kPolicy, kShare, kZeroWhenMatched, "", "rollout_corr/rollout_is_ratio_fraction_low"},
        always,
        [](const Inputs& in) { return in.per_token(static_cast<double>(in.prepared.is_sums.below)); }},
    Row{{"rollout_is_eff_sample_size",
         "1 / mean((w / mean w)^2) of the weights after the threshold, before rejection; 0 when all are 0; "
         "verl holds weights at 1 / C or more first",
         "1", kHigher, kPolicy, kShare, kOneWhenMatched, "", "rollout_corr/rollout_is_eff_sample_size"},
        always,
        [](const Inputs& in) {
          const double sum = in.prepared.is_sums.weight,
                       squares = in.per_token(in.prepared.is_sums.weight_square);
          return squares > 0.0 ? in.per_token(sum) * in.per_token(sum) / squares : 0.0;
        }},
    Row{{"opsm_clipfrac", "share of tokens that off-policy sequence masking drops", "1", kLower, kPolicy,
         kShare, "exactly 0 with one update a rollout", "", "", "DeepSeek-V3.2", kNeedsOpsm},
        with_opsm,
        [](const Inputs& in) { return in.per_token(static_cast<double>(in.sums.opsm_masked)); }},
    Row{{"rollout_rs_masked_fraction", "share of tokens that rollout_rs rejects", "1", kLower, kPolicy,
         kShare, "a few percent; above 0.5 a threshold is wrong", "",
         "rollout_corr/rollout_rs_masked_fraction", "", kNeedsRejection},
        with_rejection,
        [](const Inputs& in) { return in.per_token(static_cast<double>(in.prepared.is_sums.rejected)); }},
    Row{{"rollout_rs_seq_masked_fraction", "share of responses that lose a token to rollout_rs", "1", kLower,
         kPolicy, kShare, "a few percent; above 0.5 a threshold is wrong", "",
         "rollout_corr/rollout_rs_seq_masked_fraction", "", kNeedsRejection},
        with_rejection,
        [](const Inputs& in) {
          return static_cast<double>(in.prepared.is_sums.rejected_responses) /
                 static_cast<double>(in.prepared.totals.responses);
        }},
    Row{{"triage_active", "1 if a gate weight is below 1 or a Repair window is active, else 0", "1", kNeutral,
         kPolicy, "0 or 1", kInert, "", "", kOurs, kNeedsTriage},
        with_triage,
        [](const Inputs& in) { return triage_active(in.prepared, in.sums) ? 1.0 : 0.0; }},
    Row{{"triage_gate_weight_mean", "mean gate weight over valid tokens", "1", kNeutral, kPolicy, "(0, 1]",
         "1; far below 1 the gate attenuates most of the signal", "", "", kTriage, kNeedsTriage},
        with_gate,
        [](const Inputs& in) { return in.token_weight_mean(); }},
    Row{{"triage_token_weight_mean", "exact normaliser Z / valid tokens (1 when the gate is off)", "1",
         kNeutral, kPolicy, "(0, 1]", "as triage_gate_weight_mean", "", "", kTriage, kNeedsTriage},
        with_triage,
        [](const Inputs& in) { return in.token_weight_mean(); }},
    Row{{"triage_repair_loss", "(1/S) sum of phi(q) over the windows in scope, without the coefficient", "1",
         kNeutral, kPolicy, kPositive, kInert, "", "", kTriage, kNeedsTriage},
        with_repair,
        [](const Inputs& in) { return in.sums.repair_loss; }},
    Row{{"triage_repair_contribution", "coefficient in force * triage_repair_loss", "1", kNeutral, kPolicy,
         kPositive, kInert, "", "", kTriage, kNeedsTriage},
        with_repair,
        [](const Inputs& in) { return in.prepared.repair_coef * in.sums.repair_loss; }},
    Row{{"triage_repair_active_segment_fraction", "windows in scope with q > 0, / S", "1", kNeutral, kPolicy,
         kShare, kInert, "", "", kTriage, kNeedsTriage},
        with_repair,
        [](const Inputs& in) { return in.per_segment(static_cast<double>(in.sums.repair_active)); }},
    Row{{"triage_repair_valid_segments_per_seq", "S / N", "1", kNeutral, kPolicy, ">= 1",
         "grows with the length of the responses", "", "", kTriage, kNeedsTriage},
        with_repair,
        [](const Inputs& in) {
          return static_cast<double>(in.prepared.totals.repair_segments) /
                 static_cast<double>(in.prepared.totals.responses);
        }},
    Row{{"triage_repair_mean_delta", "sum over the windows in scope of the mean live gap, / S", "nat",
         kNeutral, kPolicy, kAny, "0 with matched recipes and one update a rollout", "", "", kTriage,
         kNeedsTriage},
        with_repair,
        [](const Inputs& in) { return in.per_segment(in.sums.repair_delta); }},
    Row{{"triage_repair_force_mean", "sum over the windows in scope of q / sqrt(1 + (q / beta)^2), / S", "1",
         kNeutral, kPolicy, "[0, beta)", kInert, "", "", kTriage, kNeedsTriage},
        with_repair,
        [](const Inputs& in) { return in.per_segment(in.sums.repair_force); }},
    Row{{"triage_repair_scope_token_fraction", "sum over windows of the share of tokens in scope, / S", "1",
         kNeutral, kPolicy, kShare, "the share of windows with a positive advantage", "", "", kTriage,
         kNeedsTriage},
        with_repair,
        [](const Inputs& in) { return in.per_segment(in.sums.repair_scope); }},
};

}  // namespace

std::vector<MetricInfo> metric_table() {
  std::vector<MetricInfo> infos;
  for (const Row& row : kMetrics) infos.push_back(row.info);
  infos.insert(infos.end(), kStepMetrics.begin(), kStepMetrics.end());
  return infos;
}

bool in_stage(const MetricInfo& metric, std::string_view stage) {
  if (metric.stages == MetricStages::all) return true;
  return (stage == "sft") == (metric.stages == MetricStages::sft);
}

bool triage_active(const Prepared& prepared, const MetricSums& sums) {
  return prepared.totals.weight_units < 100 * prepared.totals.tokens || sums.repair_active > 0;
}

std::vector<std::pair<std::string, double>> metrics(const Batch& batch, const Prepared& prepared,
                                                    const MetricSums& sums) {
  require(sums.tokens > 0, "metrics: no valid token was evaluated; there is nothing to average");
  require(sums.tokens == prepared.totals.tokens,
          "metrics: {} valid tokens were evaluated but the update has {}; evaluate every response once",
          sums.tokens, prepared.totals.tokens);
  const GapStats gap = gap_stats(batch);
  const Inputs in{prepared, sums};
  std::vector<std::pair<std::string, double>> out;
  for (const Row& row : kMetrics) {
    if (!row.applies(in)) continue;
    out.emplace_back(std::string(row.info.name), row.gap != nullptr ? gap.*row.gap : row.value(in));
  }
  return out;
}

std::vector<std::pair<std::string, double>> gap_metrics(const Batch& batch) {
  const GapStats gap = gap_stats(batch);
  std::vector<std::pair<std::string, double>> out;
  for (const Row& row : kMetrics) {
    if (row.gap != nullptr) out.emplace_back(std::string(row.info.name), gap.*row.gap);
  }
  return out;
}

}  // namespace minite::rl
