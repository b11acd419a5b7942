// TRIAGE Repair.
#include <algorithm>
#include <cmath>

#include "rl/triage.h"

namespace minite::rl {

void append_repair_segments(const Batch& batch, std::int64_t begin, std::int64_t end, std::int64_t size,
                            std::vector<RepairSegment>& out) {
  for (std::int64_t b = begin; b < end; b += size) {
    RepairSegment segment{b, std::min(b + size, end), 0, 0.0};
    double sum = 0.0;
    for (std::int64_t t = segment.begin; t < segment.end; ++t) {
      if (batch.mask[t] == 0) continue;
      ++segment.n_valid;
      sum += batch.advantage[t];
    }
    if (segment.n_valid == 0) continue;
    segment.mean_advantage = sum / static_cast<double>(segment.n_valid);
    out.push_back(segment);
  }
}

RepairValue repair_value(const RepairConfig& config, double mean_delta) {
  RepairValue value;
  value.q = std::max(config.target - mean_delta, 0.0);
  const double x = value.q / config.huber_beta;
  const double root = std::sqrt(1.0 + x * x);
  // beta^2 (root - 1) written without the cancellation at small q.
  value.penalty = value.q * value.q / (root + 1.0);
  value.force = value.q / root;
  return value;
}

double evaluate_repair(const Batch& batch, const RepairConfig& config, const RepairSegment& segment,
                       double segments, double coef, std::span<const double> logp_live,
                       std::span<double> dlogp, MetricSums& sums) {
  const RepairScopeRow& scope = row_of(kRepairScopes, config.scope);
  if (!scope.segment(segment.mean_advantage)) return 0.0;
  const auto delta = [&](std::int64_t t) { return logp_live[t - segment.begin] - batch.logp_sampler[t]; };
  double sum = 0.0;
  std::int64_t selected = 0;
  for (std::int64_t t = segment.begin; t < segment.end; ++t) {
    if (batch.mask[t] == 0) continue;
    sum += delta(t);
    selected += scope.token(delta(t)) ? 1 : 0;
  }
  if (selected == 0) return 0.0;
  const auto n = static_cast<double>(segment.n_valid);
  const RepairValue value = repair_value(config, sum / n);
  sums.repair_loss += value.penalty / segments;
  sums.repair_delta += sum / n;
  sums.repair_force += value.force;
  sums.repair_scope += static_cast<double>(selected) / n;
  sums.repair_active += value.q > 0.0 ? 1 : 0;
  const double pull = coef * value.force / (segments * n);
  if (pull != 0.0) {
    for (std::int64_t t = segment.begin; t < segment.end; ++t) {
      if (batch.mask[t] != 0 && scope.token(delta(t))) dlogp[t - segment.begin] -= pull;
    }
  }
  return coef * value.penalty / segments;
}

}  // namespace minite::rl
