// Phase (a) of the loss: everything that is frozen for one update.
#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "rl/correction.h"
#include "rl/rejection.h"
#include "rl/triage.h"

namespace minite::rl {
namespace {

void measure(double ratio, const IsThreshold& threshold, IsSums& sums) {
  sums.ratio_square += ratio * ratio;
  sums.ratio_min = std::min(sums.ratio_min, ratio);
  sums.ratio_max = std::max(sums.ratio_max, ratio);
  sums.above += ratio > threshold.high ? 1 : 0;
  sums.below += ratio < threshold.low ? 1 : 0;
}

// Correction weights of one response. `out` holds the raw ratios in between. The sums are taken before the
// rejection, which would otherwise hide what it rejects.
void correct(const Batch& batch, const LossConfig& config, std::int64_t begin, std::int64_t count,
             std::span<double> out, IsSums& sums) {
  const RolloutIsRow& level = row_of(kRolloutIs, config.rollout_is);
  const OutOfRangeRow& outside = row_of(kOutOfRange, config.rollout_is_threshold.outside);
  const auto b = static_cast<std::size_t>(begin);
  const auto n = static_cast<std::size_t>(count);
  const auto mask = batch.mask.subspan(b, n);
  level.ratio(batch.logp_old.subspan(b, n), batch.logp_sampler.subspan(b, n), mask, out);
  double weight = 0.0;
  std::int64_t valid = 0;
  for (std::size_t t = 0; t < n; ++t) {
    if (mask[t] == 0) continue;
    const double ratio = out[t];
    sums.ratio += ratio;
    sums.abs_error += std::abs(ratio - 1.0);
    measure(ratio, config.rollout_is_threshold, sums);
    out[t] = level.applied ? outside.weight(ratio, config.rollout_is_threshold) : 1.0;
    sums.changed += level.applied && out[t] != ratio ? 1 : 0;
    weight += out[t];
    sums.weight_square += out[t] * out[t];
    ++valid;
  }
  sums.weight += weight;
  if (valid > 0) sums.response_weight += weight / static_cast<double>(valid);
}

// Sets the weight of rejected tokens to 0.
void drop_rejected(const Batch& batch, const LossConfig& config, std::int64_t begin, std::int64_t count,
                   std::span<double> weight, IsSums& sums) {
  if (config.rollout_rs.empty()) return;
  const auto b = static_cast<std::size_t>(begin);
  const auto n = static_cast<std::size_t>(count);
  const auto mask = batch.mask.subspan(b, n);
  std::vector<std::uint8_t> keep(n, 1);
  reject(config.rollout_rs, batch.logp_old.subspan(b, n), batch.logp_sampler.subspan(b, n), mask, keep);
  std::int64_t rejected = 0;
  for (std::size_t t = 0; t < n; ++t) {
    if (mask[t] == 0 || keep[t] != 0) continue;
    weight[t] = 0.0;
    ++rejected;
  }
  sums.rejected += rejected;
  sums.rejected_responses += rejected > 0 ? 1 : 0;
}

void weigh(const Batch& batch, const GateConfig& gate, std::int64_t begin, std::int64_t count,
           std::span<std::uint8_t> units) {
  const auto b = static_cast<std::size_t>(begin);
  const auto n = static_cast<std::size_t>(count);
  const auto mask = batch.mask.subspan(b, n);
  if (gate.enable) {
    gate_units(gate, batch.logp_old.subspan(b, n), batch.logp_sampler.subspan(b, n),
               batch.advantage.subspan(b, n), mask, units);
    return;
  }
  for (std::size_t t = 0; t < n; ++t) units[t] = mask[t] != 0 ? 100 : 0;
}

}  // namespace

Totals& Totals::operator+=(const Totals& other) {
  responses += other.responses;
  tokens += other.tokens;
  weight_units += other.weight_units;
  repair_segments += other.repair_segments;
  return *this;
}

IsSums& IsSums::operator+=(const IsSums& other) {
  ratio += other.ratio;
  abs_error += other.abs_error;
  weight += other.weight;
  response_weight += other.response_weight;
  ratio_square += other.ratio_square;
  weight_square += other.weight_square;
  ratio_min = std::min(ratio_min, other.ratio_min);
  ratio_max = std::max(ratio_max, other.ratio_max);
  above += other.above;
  below += other.below;
  changed += other.changed;
  rejected += other.rejected;
  rejected_responses += other.rejected_responses;
  return *this;
}

Prepared prepare(const Batch& batch, const LossConfig& config, std::int64_t step) {
  validate(batch);
  validate(config);
  require(config.kl_loss_coef == 0.0 || !batch.logp_ref.empty() || batch.n_tokens() == 0,
          "kl_loss_coef = {} needs the batch's logp_ref, the log-probs of the reference",
          config.kl_loss_coef);
  const TriageConfig& triage = config.triage;
  const auto n_tokens = static_cast<std::size_t>(batch.n_tokens());
  Prepared p;
  p.config = config;
  p.repair_coef = triage.repair.enable && step >= triage.repair.start_step ? triage.repair.coef : 0.0;
  p.offsets.assign(batch.offsets.begin(), batch.offsets.end());
  p.is_weight.assign(n_tokens, 0.0);
  p.gate_units.assign(n_tokens, 0);
  p.segment_offsets.push_back(0);
  for (std::int64_t i = 0; i < batch.n_responses(); ++i) {
    const std::int64_t begin = batch.offsets[i];
    const std::int64_t count = batch.offsets[i + 1] - begin;
    const auto weight = std::span(p.is_weight).subspan(begin, count);
    correct(batch, config, begin, count, weight, p.is_sums);
    drop_rejected(batch, config, begin, count, weight, p.is_sums);
    weigh(batch, triage.gate, begin, count, std::span(p.gate_units).subspan(begin, count));
    append_repair_segments(batch, begin, begin + count, triage.repair.size, p.repair_segments);
    p.segment_offsets.push_back(static_cast<std::int64_t>(p.repair_segments.size()));
    std::int64_t valid = 0;
    std::int64_t units = 0;
    for (std::int64_t t = begin; t < begin + count; ++t) {
      valid += batch.mask[t];
      units += p.gate_units[t];
    }
    p.response_tokens.push_back(valid);
    p.response_units.push_back(units);
    p.totals += Totals{valid > 0 ? 1 : 0, valid, units, 0};
  }
  p.totals.repair_segments = static_cast<std::int64_t>(p.repair_segments.size());
  return p;
}

}  // namespace minite::rl
