#pragma once
// Reinforcement learning on ragged arrays: advantages, corrections for the learner-sampler gap, TRIAGE,
// the policy loss with its gradient, and metrics. Pure functions of spans; nothing here knows a tensor,
// a model or a device. All arithmetic is FP64; log-probs arrive as FP32 values widened to double.
//
// Symbols: lS = log-prob recorded by the sampler, lO = log-prob recomputed by the learner before the
// update, l = live log-prob of the learner, A = advantage. Three ratios that must not be mixed:
//   PPO ratio r = exp(l - lO);   sampler correction rho = exp(lO - lS);   gap = learner - sampler.
// Masked positions are selected away, never multiplied away: whatever lies there (NaN, inf, 1e30)
// changes no bit of any result.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "minite/error.h"

namespace minite::rl {

// ---------------------------------------------------------------------------------------------- options

/// How a group of rewards becomes advantages.
enum class AdvEstimator : std::uint8_t { grpo, dr_grpo };
/// Policy loss of one token (verl `policy_loss.loss_mode`).
enum class LossMode : std::uint8_t { vanilla, gspo, cispo, geo_mean, sapo };
/// How token losses become one number (verl `loss_agg_mode`).
enum class LossAggMode : std::uint8_t {
  token_mean,
  token_sum,
  seq_mean_token_sum,
  seq_mean_token_sum_norm,
  seq_mean_token_mean,
};
/// Penalty that keeps the policy near a frozen reference (verl `kl_loss_type`).
enum class KlLossType : std::uint8_t { k1, k2, k3, low_var_kl };
/// Level of the sampler correction (verl `rollout_is`).
enum class RolloutIs : std::uint8_t { none, token, sequence, geometric };
/// Statistics on which tokens or responses are rejected (verl `rollout_rs`; `veto` is slime's).
enum class RolloutRs : std::uint8_t {
  token_k1,
  token_k2,
  token_k3,
  seq_sum_k1,
  seq_sum_k2,
  seq_sum_k3,
  seq_mean_k1,
  seq_mean_k2,
  seq_mean_k3,
  seq_max_k2,
  seq_max_k3,
  veto,
};
/// What happens to a correction ratio outside its range.
enum class OutOfRange : std::uint8_t { truncate, mask };
/// Where TRIAGE's weighted mean is taken.
enum class Normalization : std::uint8_t { response, global };
/// Which tokens of an eligible Gate segment get its weight.
enum class GateScope : std::uint8_t { q3, whole };
/// Which segments and tokens Repair pulls on.
enum class RepairScope : std::uint8_t { adv_positive, whole, q2 };

/// Whose experts the learner's passes take in a mixture of experts (verl `router_replay.mode`).
enum class RouterReplay : std::uint8_t { off, R2, R3 };

/// One row of an option table, as command line help and the documentation show it.
struct Option {
  std::string_view name;        ///< spelled as in verl, e.g. "seq-mean-token-mean"
  std::string_view definition;  ///< one sentence with the formula
};

/// All values of option enum E (any enum of the section above) in table order.
template <class E>
[[nodiscard]] std::vector<Option> options();
/// The value called `name`. Throws invalid_argument that lists the names and suggests the nearest.
template <class E>
[[nodiscard]] E parse(std::string_view name);
/// The name of `value`.
template <class E>
[[nodiscard]] std::string_view name_of(E value);

/// A named method: which estimator, loss, clip range and aggregation belong together.
struct ObjectivePreset {
  std::string_view name;
  std::string_view definition;
  AdvEstimator adv_estimator;
  LossMode loss_mode;
  LossAggMode loss_agg_mode;
  double clip_ratio_low;
  double clip_ratio_high;
};
[[nodiscard]] std::span<const ObjectivePreset> objective_presets();
/// Throws invalid_argument for an unknown name.
[[nodiscard]] const ObjectivePreset& objective_preset(std::string_view name);

// ------------------------------------------------------------------------------------------------ batch

/// Ragged responses of one update. Response i owns tokens [offsets[i], offsets[i + 1]). All spans are
/// borrowed; they must outlive the call. Values where mask is 0 are never read arithmetically.
struct Batch {
  std::span<const std::int64_t> offsets;  ///< [n_responses + 1], starts at 0, never falls
  std::span<const double> logp_sampler;   ///< [n_tokens], lS, nats
  std::span<const double> logp_old;       ///< [n_tokens], lO, nats
  std::span<const std::uint8_t> mask;     ///< [n_tokens], 1 = token counts, 0 = ignored
  std::span<const double> advantage;      ///< [n_tokens], A
  std::span<const double> logp_ref = {};  ///< [n_tokens], log-probs of the KL reference; empty: none

  [[nodiscard]] std::int64_t n_responses() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  [[nodiscard]] std::int64_t n_tokens() const { return static_cast<std::int64_t>(mask.size()); }
};

/// Checks lengths, offsets and mask values (invalid_argument), and that every valid position holds finite
/// log-probs (the reference's too, when given) and advantage (non_finite, naming response and token).
void validate(const Batch& batch);

/// Masks the tokens for which the sampler reported no finite log-prob (some engines give NaN when p -> 1), so
/// that they count nowhere: not in the loss, not in a denominator, not in the gap. Returns how many of the
/// valid ones it masked; report that number. Throws invalid_argument when the lengths differ.
std::int64_t mask_non_finite(std::span<const double> logp_sampler, std::span<std::uint8_t> mask);

/// Writes per_response[i] to every token of response i. `out` is [n_tokens] and may not alias the inputs.
void broadcast_advantage(std::span<const std::int64_t> offsets, std::span<const double> per_response,
                         std::span<double> out);

/// Advantages of groups of `group_size` consecutive rewards (samples of one prompt).
///   grpo     A = (R - mean) / (std + 1e-6), std unbiased (G - 1), as verl and slime
///   dr_grpo  A = R - mean
/// A group whose rewards are all equal gives exactly 0. `out` is [rewards] and may alias `rewards`.
/// Throws invalid_argument (group_size < 2, or not a divisor) or non_finite (naming the reward).
void group_advantages(AdvEstimator estimator, std::int64_t group_size, std::span<const double> rewards,
                      std::span<double> out);

/// DAPO dynamic sampling: indices of the groups of `group_size` consecutive rewards that are not all equal.
/// The others have advantage 0 and teach nothing. Throws invalid_argument (group_size < 1, or not a divisor).
[[nodiscard]] std::vector<std::int64_t> groups_with_signal(std::int64_t group_size,
                                                           std::span<const double> rewards);

/// DAPO overlong soft penalty, to be added to the reward of a response of `length` tokens that may have at
/// most `max_length`: 0 up to max_length - buffer_len, then linear to -penalty_factor at max_length.
/// Throws invalid_argument unless 1 <= buffer_len <= max_length, 0 <= length and penalty_factor >= 0.
[[nodiscard]] double overlong_penalty(std::int64_t length, std::int64_t max_length, std::int64_t buffer_len,
                                      double penalty_factor);

// ----------------------------------------------------------------------------------------------- config

/// Range of the correction ratio. TIS: {0, C, truncate}; IcePop: {low, high, mask}.
struct IsThreshold {
  double low = 0.0;
  double high = 2.0;
  OutOfRange outside = OutOfRange::truncate;
};

/// verl's spelling of `rollout_is_threshold`: "2" is {0, 2, truncate}, "0.5_5.0" is {0.5, 5, mask}.
[[nodiscard]] IsThreshold parse_is_threshold(std::string_view text);

/// Keeps a token only while `low <= statistic <= high`, in nats. With x = lO - lS clamped to +-20:
///   k1 = -x, k2 = x^2 / 2, k3 = exp(x) - x - 1; per token, or summed, averaged or maximised over the
///   response.
/// A rejected token loses its policy loss and its gradient and keeps its place in every denominator; entropy,
/// KL, TRIAGE and the gap metrics do not see the rejection.
struct RejectionRule {
  RolloutRs statistic = RolloutRs::token_k1;
  double low = 0.0;
  double high = 0.0;
};

/// verl's spelling: comma-separated statistics and one threshold each, or one for all. For *_k1 "lo_hi"
/// bounds exp(k1) = 1 / rho (geometric mean for seq_mean_k1), "hi" alone means "1/hi_hi"; for k2 and k3 an
/// upper bound; for veto the least rho_t that a response may hold, e.g. 1e-4. All rules must hold. "none" is
/// no rule. Throws invalid_argument naming the statistic or the threshold.
[[nodiscard]] std::vector<RejectionRule> parse_rollout_rs(std::string_view statistics,
                                                          std::string_view thresholds);

/// TRIAGE Gate, arXiv:2610.07043 and the public TRIAGE code (names as TRIAGE_GATE_*). Over the valid tokens
/// of each window of `size` positions, with the detached gap d = lO - lS and k tokens below bad_delta:
///   eligible  <=>  mean A < neg_adv_max
///   w_mean = severe_weight if mean d < severe_delta, neg_weight if mean d < neg_delta, else 1
///   w_tail = 1 - (1 - severe_weight) min(k / bad_count_full, 1);   w = min(w_mean, w_tail)
/// All comparisons are strict. Weights are kept in integer hundredths (100, 55, 30, 10 by default).
struct GateConfig {
  bool enable = false;
  std::int64_t size = 64;           ///< positions; the last short window is kept
  double neg_delta = -0.5;          ///< nats
  double neg_weight = 0.3;          ///< a multiple of 0.01 in (0, 1]
  double severe_delta = -1.5;       ///< nats, <= neg_delta
  double severe_weight = 0.1;       ///< a multiple of 0.01 in (0, neg_weight]
  double bad_delta = -6.0;          ///< nats, of one token
  std::int64_t bad_count_full = 2;  ///< tail tokens that give the full attenuation; an absolute count
  double neg_adv_max = 0.0;         ///< <= 0, so that A = 0 is never gated
  GateScope scope = GateScope::q3;  ///< the reported setting (the public code defaults to whole)
};

/// TRIAGE Repair (names as TRIAGE_REPAIR_*). Over windows R of `size` positions, with the live gap l - lS:
///   q = max(target - mean gap, 0),  phi = beta^2 (sqrt(1 + (q / beta)^2) - 1),  L_rep = (1/S) sum phi(q_R)
/// S counts every window with a valid token, selected or not.
struct RepairConfig {
  bool enable = false;
  std::int64_t size = 128;
  double coef = 0.015;
  std::int64_t start_step = 0;                    ///< first step at which coef applies (inclusive)
  double huber_beta = 0.022360679774997897;       ///< sqrt(0.0005)
  double target = -0.03;                          ///< tau, nats
  RepairScope scope = RepairScope::adv_positive;  ///< the reported setting (the public code: whole)
};

/// `response` is the report: weighted mean inside a response, then mean over responses (a response that is
/// attenuated uniformly keeps its influence). `global` is the public code: one weighted mean over the
/// update. `response` goes with seq-mean-token-mean, `global` with token-mean; other pairs are refused.
struct TriageConfig {
  Normalization normalization = Normalization::response;
  GateConfig gate;
  RepairConfig repair;
  [[nodiscard]] bool enabled() const { return gate.enable || repair.enable; }
};

/// Everything the loss depends on besides data. Names as in verl.
struct LossConfig {
  LossMode loss_mode = LossMode::vanilla;
  double clip_ratio_low = 0.2;  ///< 1 or more: no lower bound
  double clip_ratio_high = 0.28;
  std::optional<double> clip_ratio_c;  ///< dual clip, > 1; off when empty; vanilla only
  double tau_pos = 1.0;                ///< sapo only: sharpness for A > 0
  double tau_neg = 1.05;               ///< sapo only: for A <= 0
  LossAggMode loss_agg_mode = LossAggMode::seq_mean_token_mean;
  std::optional<double> loss_scale_factor;  ///< seq-mean-token-sum-norm only, e.g. the longest response
  RolloutIs rollout_is = RolloutIs::none;
  IsThreshold rollout_is_threshold;
  bool rollout_is_batch_normalize = false;  ///< divide weights by their mean over the update
  std::vector<RejectionRule> rollout_rs;    ///< all must hold; orthogonal to rollout_is
  bool bypass_mode = false;  ///< lS stands for lO in the ratio, in ppo_kl and in OPSM; refuses a rollout_is
  std::optional<double> opsm_delta;  ///< off-policy sequence masking, nats; off when empty
  double entropy_coef = 0.0;         ///< loss -= entropy_coef * aggregated entropy
  double kl_loss_coef = 0.0;         ///< loss += kl_loss_coef * aggregated penalty; needs Batch::logp_ref
  KlLossType kl_loss_type = KlLossType::low_var_kl;
  TriageConfig triage;
};

/// Throws invalid_argument naming the option, its value and the allowed range, or both options of a pair.
void validate(const LossConfig& config);

// ------------------------------------------------------------------------------------------------- loss

/// Integer denominators. To train on several machines, sum `Prepared::totals` and `Prepared::is_sums` over
/// ranks before evaluate(), and MetricSums before metrics().
struct Totals {
  std::int64_t responses = 0;        ///< N, responses with at least one valid token
  std::int64_t tokens = 0;           ///< valid tokens
  std::int64_t weight_units = 0;     ///< Z, sum of gate weights over valid tokens, in hundredths
  std::int64_t repair_segments = 0;  ///< S, Repair windows with at least one valid token
  Totals& operator+=(const Totals& other);
};

/// One Repair window with a valid token; token indices count from the start of the batch.
struct RepairSegment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t n_valid = 0;
  double mean_advantage = 0.0;
};

/// Sums over valid tokens of the raw correction ratio (of the level `rollout_is`; token level for none), of
/// its weight after the threshold, and what rollout_rs rejected.
struct IsSums {
  double ratio = 0.0;            ///< sum rho
  double abs_error = 0.0;        ///< sum |rho - 1|
  double weight = 0.0;           ///< sum of weights, before rejection
  double response_weight = 0.0;  ///< sum over responses of their mean weight, before rejection
  double ratio_square = 0.0;     ///< sum rho^2
  double weight_square = 0.0;    ///< sum of squared weights, before rejection
  double ratio_min = std::numeric_limits<double>::infinity();
  double ratio_max = 0.0;
  std::int64_t above = 0, below = 0;    ///< tokens whose rho lies beyond a bound of the threshold
  std::int64_t changed = 0;             ///< tokens whose weight is not rho
  std::int64_t rejected = 0;            ///< tokens
  std::int64_t rejected_responses = 0;  ///< responses that lost a token
  IsSums& operator+=(const IsSums& other);
};

/// What is computed once per update, before micro-batching, and stays frozen while it runs.
struct Prepared {
  LossConfig config;
  double repair_coef = 0.0;                   ///< config's coefficient, 0 when off or before start_step
  std::vector<std::int64_t> offsets;          ///< copy of the batch's, to recognise it
  std::vector<double> is_weight;              ///< [n_tokens], detached; 0 under the mask and where rejected
  std::vector<std::uint8_t> gate_units;       ///< [n_tokens], hundredths 1..100; 0 under the mask
  std::vector<std::int64_t> response_tokens;  ///< [n_responses], valid tokens
  std::vector<std::int64_t> response_units;   ///< [n_responses], Z of the response
  std::vector<RepairSegment> repair_segments;
  std::vector<std::int64_t> segment_offsets;  ///< [n_responses + 1] into repair_segments
  IsSums is_sums;
  Totals totals;
};

/// Validates and freezes weights, windows and denominators. `step` counts updates from 0.
[[nodiscard]] Prepared prepare(const Batch& batch, const LossConfig& config, std::int64_t step = 0);

/// Live values of the responses being evaluated; element 0 is the first token of the first of them.
struct Live {
  std::span<const double> logp;     ///< [tokens of the range], l
  std::span<const double> entropy;  ///< [tokens of the range], or empty when entropy_coef is 0
};

/// Where evaluate() writes; same layout as Live, which it must not alias. Masked positions receive 0.
struct Gradients {
  std::span<double> dlogp;     ///< d loss / d l
  std::span<double> dentropy;  ///< d loss / d entropy; may be empty when entropy_coef is 0
};

/// Additive parts of the metrics. Feeding one object in response order gives the same bits for every split.
struct MetricSums {
  double loss = 0.0;
  double pg_loss = 0.0;
  double entropy_loss = 0.0;  ///< aggregated entropy, without its coefficient
  double kl_loss = 0.0;       ///< aggregated KL penalty, without its coefficient
  double repair_loss = 0.0;   ///< L_rep, without its coefficient
  double ppo_kl = 0.0;        ///< sum of lO - l
  double ratio = 0.0;         ///< sum of r
  double repair_delta = 0.0;
  double repair_force = 0.0;
  double repair_scope = 0.0;
  std::int64_t tokens = 0;
  std::int64_t entropy_tokens = 0;
  std::int64_t kl_tokens = 0;
  std::int64_t clipped = 0;
  std::int64_t clipped_lower = 0;
  std::int64_t opsm_masked = 0;  ///< tokens
  std::int64_t repair_active = 0;
  MetricSums& operator+=(const MetricSums& other);
};

/// Loss contribution of responses [response_begin, response_end), with the frozen global denominators:
/// contributions of any split add up to the loss of the update, and each token's gradient has the same bits
/// in every split. Fully masked responses contribute nothing.
///   loss = L_pg + repair_coef * L_rep - entropy_coef * entropy + kl_loss_coef * kl
///   L_pg = sum_t w_t / Z * weight_t / mean * L_t, mean = 1 without rollout_is_batch_normalize, else the mean
/// weight over tokens (token level) or over responses (sequence level) before rejection;
/// L_t is the row of loss_mode:
///   vanilla  max(-r A, -clip(r, 1 - low, 1 + high) A), for A < 0 at most -clip_ratio_c A
///   gspo     the same with s = exp(mean over the response of log r) for r; dL_t / dl_t = -A s, the straight-
///            through form of verl. Where weights are equal within a response its sum over tokens is the
///            exact gradient. The mean is clamped to at most 10 before exp.
///   cispo    -sg(clip(r, 1 - low, 1 + high)) A l, with no gradient through the clipped ratio
///   geo_mean -A exp(mean over the response of x), x = log r held at high for A > 0 and at -low for A < 0; a
///            token that is held has no gradient. As gspo: exact where weights are equal, mean at most 10
///   sapo     -A sigmoid(tau (r - 1)) 4 / tau, tau by the sign of A
/// With opsm_delta, tokens with A < 0 lose their L_t where the mean over the response of lO - l is above it;
/// they keep their place in every denominator. With bypass_mode, lS stands for lO here.
/// Entropy and KL are aggregated like L_pg, without w and weight. log r is clamped to +-20 before exp, with
/// zero gradient outside (as verl). A gradient flows where r lies exactly on the clip bound. Throws
/// invalid_argument (sizes, a batch other than the prepared one) or non_finite (a live value at a valid
/// position, or the contribution itself; names response and token); after an error the outputs are
/// unspecified.
double evaluate(const Batch& batch, const Prepared& prepared, std::int64_t response_begin,
                std::int64_t response_end, const Live& live, const Gradients& gradients, MetricSums& sums);

// ---------------------------------------------------------------------------------------------- metrics

/// Which way a metric should move.
enum class Direction : std::uint8_t { neutral, lower, higher };

/// Stages of a run whose lines hold a metric. The stages rl and contrast take the same step.
enum class MetricStages : std::uint8_t { sft, policy, all };

/// One metric of a run. The fields after `stages` may be left out where nothing is known.
struct MetricInfo {
  std::string_view name;        ///< in metrics.jsonl; as slime, verl or TRIAGE print it where they have it
  std::string_view definition;  ///< one sentence with the formula
  std::string_view unit;
  Direction direction = Direction::neutral;
  MetricStages stages = MetricStages::policy;
  std::string_view range = "any";  ///< ">= 0", "[0, 1]", "any"
  std::string_view healthy = "";   ///< what a run without trouble shows
  std::string_view slime = "";     ///< the key under which slime logs the same quantity, exactly
  std::string_view verl = "";      ///< the same of verl
  std::string_view source = "";    ///< whose definition it is, when neither of the two logs it
  std::string_view when = "";      ///< the setting that it needs; empty: every step has it
};

/// Every key that a line of metrics.jsonl may hold besides global_step, step and stage; (name, stage) is
/// unique. First the rows of metrics() in its order, then those that the step itself writes.
[[nodiscard]] std::vector<MetricInfo> metric_table();
/// Whether lines of the stage "sft", "rl" or "contrast" hold the metric.
[[nodiscard]] bool in_stage(const MetricInfo& metric, std::string_view stage);

/// The gap between stored log-probs, x = lO - lS over valid tokens, before any rejection mask.
struct GapStats {
  std::int64_t tokens = 0;
  double abs_mean = 0.0;      ///< mean |x|
  double abs_max = 0.0;       ///< max |x|
  double response_max = 0.0;  ///< largest per-response mean |x|
  double response_q50 = 0.0;  ///< quantiles of the per-response mean |x|
  double response_q95 = 0.0;
  double q05 = 0.0;  ///< quantile of x, linear interpolation between order statistics
  double q01 = 0.0;
  double k1 = 0.0;                ///< mean(-x), estimates KL(sampler || learner); may be negative
  double k3 = 0.0;                ///< mean(exp(x) - x - 1) >= 0, x clamped to +-20
  double k2 = 0.0;                ///< mean(x^2 / 2)
  double mult_prob_error = 0.0;   ///< mean exp(|x|), |x| at most 20
  double tail_fraction = 0.0;     ///< share of tokens with x < -6
  double within_fraction = 0.0;   ///< share of tokens with |x| < 0.05
  double chi2_token = 0.0;        ///< mean(exp(2 x)) - 1, x clamped to +-20
  double chi2_seq = 0.0;          ///< the same of the sum of x over each response
  double training_ppl = 0.0;      ///< mean over responses of exp(-mean lO)
  double rollout_ppl = 0.0;       ///< mean over responses of exp(-mean lS)
  double log_ppl_diff = 0.0;      ///< mean over responses of the mean of lS - lO
  double log_ppl_abs_diff = 0.0;  ///< mean over responses of its absolute value
  double ppl_ratio = 0.0;         ///< mean over responses of its exponential
  double prob_pearson =
      0.0;  ///< of exp(lO) and exp(lS); a side that is constant gives 1 if both agree, else 0
  double prob_abs_mean = 0.0;  ///< |exp(lO) - exp(lS)|
  double prob_abs_max = 0.0;
  double prob_abs_std = 0.0;  ///< unbiased; 0 for one token
};
/// Throws invalid_argument when no token is valid: there is nothing to average.
[[nodiscard]] GapStats gap_stats(const Batch& batch);

/// True when TRIAGE changed anything in this update: a gate weight below 1 or an active Repair window.
/// At gap 0 it is false, and reports should say "inert" rather than show an empty figure.
[[nodiscard]] bool triage_active(const Prepared& prepared, const MetricSums& sums);

/// (name, value) of the loss, in table order. Rows that do not apply are absent: entropy and KL when not
/// given, dual clip when off, triage_* when TRIAGE is off. `sums` must cover every response of the update
/// once; gap metrics describe `batch` only. Throws invalid_argument when it does not, or holds no token.
[[nodiscard]] std::vector<std::pair<std::string, double>> metrics(const Batch& batch,
                                                                  const Prepared& prepared,
                                                                  const MetricSums& sums);

/// The gap metrics of metrics() alone. A rollout that is used for several updates has one gap.
[[nodiscard]] std::vector<std::pair<std::string, double>> gap_metrics(const Batch& batch);

}  // namespace minite::rl
