// Phase (b) of the loss: contribution and gradient of a range of responses.
#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "rl/aggregation.h"
#include "rl/correction.h"
#include "rl/kl.h"
#include "rl/objective.h"
#include "rl/triage.h"

namespace minite::rl {
namespace {

// One response, its spans already cut out of the batch and of the range.
struct Response {
  std::int64_t index;
  std::int64_t begin;  // in the batch
  std::int64_t count;
  std::span<const std::uint8_t> mask;
  std::span<const double> logp;
  std::span<const double> entropy;  // empty when not given
  std::span<double> dlogp;
  std::span<double> dentropy;  // empty when not wanted
};

void check_span(std::string_view name, std::size_t size, std::int64_t tokens, bool may_be_empty) {
  if (may_be_empty && size == 0) return;
  require(static_cast<std::int64_t>(size) == tokens,
          "evaluate: {} has {} elements for {} tokens of the range", name, size, tokens);
}

void check_range(const Batch& batch, const Prepared& prepared, std::int64_t begin, std::int64_t end) {
  require(std::ranges::equal(batch.offsets, prepared.offsets) &&
              batch.mask.size() == prepared.gate_units.size() &&
              batch.logp_sampler.size() == batch.mask.size() && batch.logp_old.size() == batch.mask.size() &&
              batch.advantage.size() == batch.mask.size() &&
              (batch.logp_ref.empty() || batch.logp_ref.size() == batch.mask.size()),
          "evaluate: the batch ({} responses, {} tokens) is not the one that was prepared ({} responses, {} "
          "tokens)",
          batch.n_responses(), batch.n_tokens(), prepared.response_tokens.size(), prepared.gate_units.size());
  require(0 <= begin && begin <= end && end <= batch.n_responses(),
          "evaluate: responses [{}, {}) of a batch of {}", begin, end, batch.n_responses());
}

void check_live(std::string_view name, std::span<const double> values, const Response& r) {
  if (values.empty()) return;
  for (std::int64_t t = 0; t < r.count; ++t) {
    if (r.mask[t] == 0 || std::isfinite(values[t])) continue;
    fail(ErrorCode::non_finite, "live {} = {} at response {}, token {}", name, values[t], r.index, t);
  }
}

double denominator(const Prepared& p, double response_units, double total_units) {
  return row_of(kLossAggModes, p.config.loss_agg_mode)
      .denominator({response_units, total_units, static_cast<double>(p.totals.responses),
                    p.config.loss_scale_factor.value_or(1.0)});
}

// 1 unless weights are normalized; weights that are all 0 stay so.
double mean_weight(const Prepared& p) {
  if (!p.config.rollout_is_batch_normalize) return 1.0;
  const double mean = row_of(kRolloutIs, p.config.rollout_is).mean_weight(p.is_sums, p.totals);
  return mean > 0.0 ? mean : 1.0;
}

// Whether off-policy sequence masking (DeepSeek-V3.2) drops the negative tokens of the response.
bool is_off_policy(const Prepared& p, const Response& r, std::span<const double> old) {
  if (!p.config.opsm_delta) return false;
  double sum = 0.0;
  for (std::int64_t t = 0; t < r.count; ++t) {
    if (r.mask[t] != 0) sum += old[t] - r.logp[t];
  }
  return sum / static_cast<double>(p.response_tokens[r.index]) > *p.config.opsm_delta;
}

double policy(const Batch& batch, const Prepared& p, const Response& r, std::vector<TokenTerm>& terms,
              MetricSums& sums) {
  terms.assign(static_cast<std::size_t>(r.count), {});
  const auto old = (p.config.bypass_mode ? batch.logp_sampler : batch.logp_old).subspan(r.begin, r.count);
  row_of(kLossModes, p.config.loss_mode)
      .terms({r.logp, old, batch.advantage.subspan(r.begin, r.count), r.mask}, p.config, terms);
  const double z = denominator(p, static_cast<double>(p.response_units[r.index]),
                               static_cast<double>(p.totals.weight_units));
  const double mean = mean_weight(p);
  const bool off_policy = is_off_policy(p, r, old);
  double loss = 0.0;
  for (std::int64_t t = 0; t < r.count; ++t) {
    if (r.mask[t] == 0) continue;
    if (off_policy && batch.advantage[r.begin + t] < 0.0) {
      terms[t].loss = terms[t].gradient = 0.0;
      ++sums.opsm_masked;
    }
    const TokenTerm& term = terms[t];
    const double weight = p.gate_units[r.begin + t] / z * (p.is_weight[r.begin + t] / mean);
    loss += weight * term.loss;
    r.dlogp[t] = weight * term.gradient;
    sums.ppo_kl += old[t] - r.logp[t];
    sums.ratio += term.ratio;
    sums.clipped += term.clipped ? 1 : 0;
    sums.clipped_lower += term.clipped_lower ? 1 : 0;
  }
  sums.tokens += p.response_tokens[r.index];
  sums.pg_loss += loss;
  return loss;
}

// The denominator of terms that have no gate weight: every valid token counts 100 hundredths.
double plain_denominator(const Prepared& p, const Response& r) {
  return denominator(p, 100.0 * static_cast<double>(p.response_tokens[r.index]),
                     100.0 * static_cast<double>(p.totals.tokens));
}

double entropy_bonus(const Prepared& p, const Response& r, MetricSums& sums) {
  if (r.entropy.empty() && r.dentropy.empty()) return 0.0;
  const double z = plain_denominator(p, r);
  double entropy = 0.0;
  for (std::int64_t t = 0; t < r.count; ++t) {
    if (r.mask[t] == 0) continue;
    if (!r.entropy.empty()) entropy += 100.0 / z * r.entropy[t];
    if (!r.dentropy.empty()) r.dentropy[t] = -p.config.entropy_coef * (100.0 / z);
  }
  sums.entropy_loss += entropy;
  if (!r.entropy.empty()) sums.entropy_tokens += p.response_tokens[r.index];
  return p.config.entropy_coef * entropy;
}

// Measured whenever the reference is given, and added to the loss with its coefficient.
double kl_penalty(const Batch& batch, const Prepared& p, const Response& r, MetricSums& sums) {
  if (batch.logp_ref.empty()) return 0.0;
  const KlLossRow& type = row_of(kKlLossTypes, p.config.kl_loss_type);
  const double z = plain_denominator(p, r);
  double kl = 0.0;
  for (std::int64_t t = 0; t < r.count; ++t) {
    if (r.mask[t] == 0) continue;
    const KlTerm term = type.term(batch.logp_ref[r.begin + t] - r.logp[t]);
    kl += 100.0 / z * term.value;
    r.dlogp[t] += p.config.kl_loss_coef * (100.0 / z) * term.gradient;
  }
  sums.kl_loss += kl;
  sums.kl_tokens += p.response_tokens[r.index];
  return p.config.kl_loss_coef * kl;
}

double repair(const Batch& batch, const Prepared& p, const Response& r, MetricSums& sums) {
  const RepairConfig& config = p.config.triage.repair;
  if (!config.enable) return 0.0;
  double loss = 0.0;
  for (std::int64_t s = p.segment_offsets[r.index]; s < p.segment_offsets[r.index + 1]; ++s) {
    const RepairSegment& segment = p.repair_segments[s];
    const std::int64_t first = segment.begin - r.begin;
    const std::int64_t count = segment.end - segment.begin;
    loss += evaluate_repair(batch, config, segment, static_cast<double>(p.totals.repair_segments),
                            p.repair_coef, r.logp.subspan(first, count), r.dlogp.subspan(first, count), sums);
  }
  return loss;
}

// The part of a range-sized span that belongs to one response; an absent span stays absent.
template <class T>
std::span<T> cut(std::span<T> whole, std::int64_t begin, std::int64_t count) {
  return whole.empty() ? whole : whole.subspan(begin, count);
}

}  // namespace

MetricSums& MetricSums::operator+=(const MetricSums& other) {
  loss += other.loss;
  pg_loss += other.pg_loss;
  entropy_loss += other.entropy_loss;
  kl_loss += other.kl_loss;
  repair_loss += other.repair_loss;
  ppo_kl += other.ppo_kl;
  ratio += other.ratio;
  repair_delta += other.repair_delta;
  repair_force += other.repair_force;
  repair_scope += other.repair_scope;
  tokens += other.tokens;
  entropy_tokens += other.entropy_tokens;
  kl_tokens += other.kl_tokens;
  clipped += other.clipped;
  clipped_lower += other.clipped_lower;
  opsm_masked += other.opsm_masked;
  repair_active += other.repair_active;
  return *this;
}

double evaluate(const Batch& batch, const Prepared& prepared, std::int64_t response_begin,
                std::int64_t response_end, const Live& live, const Gradients& gradients, MetricSums& sums) {
  check_range(batch, prepared, response_begin, response_end);
  const std::int64_t first = batch.offsets[response_begin];
  const std::int64_t tokens = batch.offsets[response_end] - first;
  const bool no_entropy = prepared.config.entropy_coef == 0.0;
  check_span("live logp", live.logp.size(), tokens, false);
  check_span("dlogp", gradients.dlogp.size(), tokens, false);
  check_span("live entropy", live.entropy.size(), tokens, no_entropy);
  check_span("dentropy", gradients.dentropy.size(), tokens, no_entropy);
  std::ranges::fill(gradients.dlogp, 0.0);
  std::ranges::fill(gradients.dentropy, 0.0);
  std::vector<TokenTerm> terms;
  double total = 0.0;
  for (std::int64_t i = response_begin; i < response_end; ++i) {
    if (prepared.response_tokens[i] == 0) continue;
    const std::int64_t begin = batch.offsets[i];
    const std::int64_t count = batch.offsets[i + 1] - begin;
    const Response r{i,
                     begin,
                     count,
                     batch.mask.subspan(begin, count),
                     cut(live.logp, begin - first, count),
                     cut(live.entropy, begin - first, count),
                     cut(gradients.dlogp, begin - first, count),
                     cut(gradients.dentropy, begin - first, count)};
    check_live("logp", r.logp, r);
    check_live("entropy", r.entropy, r);
    double loss = policy(batch, prepared, r, terms, sums);
    loss += repair(batch, prepared, r, sums);
    loss -= entropy_bonus(prepared, r, sums);
    loss += kl_penalty(batch, prepared, r, sums);
    if (!std::isfinite(loss)) {
      fail(ErrorCode::non_finite, "the loss of response {} is {}; its advantages or log-probs are too large",
           i, loss);
    }
    sums.loss += loss;
    total += loss;
  }
  return total;
}

}  // namespace minite::rl
