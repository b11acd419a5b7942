// Statistics of the gap between stored log-probs, in FP64.
#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "minite/rl.h"
#include "rl/ratio.h"

namespace minite::rl {
namespace {

// Linear interpolation between order statistics at (n - 1) p, as numpy and torch do by default.
double quantile(const std::vector<double>& sorted, double p) {
  const double position = static_cast<double>(sorted.size() - 1) * p;
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (position - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

struct Gaps {
  std::vector<double> log;   // lO - lS
  std::vector<double> prob;  // |exp(lO) - exp(lS)|
  double response_max = 0.0;
};

Gaps collect(const Batch& batch) {
  Gaps gaps;
  for (std::int64_t i = 0; i < batch.n_responses(); ++i) {
    double sum = 0.0;
    std::int64_t n = 0;
    for (std::int64_t t = batch.offsets[i]; t < batch.offsets[i + 1]; ++t) {
      if (batch.mask[t] == 0) continue;
      gaps.log.push_back(batch.logp_old[t] - batch.logp_sampler[t]);
      gaps.prob.push_back(std::abs(std::exp(batch.logp_old[t]) - std::exp(batch.logp_sampler[t])));
      sum += std::abs(gaps.log.back());
      ++n;
    }
    if (n > 0) gaps.response_max = std::max(gaps.response_max, sum / static_cast<double>(n));
  }
  return gaps;
}

double unbiased_std(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return 0.0;
  double squares = 0.0;
  for (double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

GapStats gap_stats(const Batch& batch) {
  validate(batch);
  Gaps gaps = collect(batch);
  require(!gaps.log.empty(), "gap: no valid token among {}; there is nothing to average", batch.n_tokens());
  const auto n = static_cast<double>(gaps.log.size());
  GapStats s;
  s.tokens = static_cast<std::int64_t>(gaps.log.size());
  s.response_max = gaps.response_max;
  for (double x : gaps.log) {
    s.abs_mean += std::abs(x);
    s.abs_max = std::max(s.abs_max, std::abs(x));
    s.k1 -= x;
    const double bounded = std::clamp(x, -kLogRatioBound, kLogRatioBound);
    s.k3 += std::expm1(bounded) - bounded;
  }
  for (double d : gaps.prob) {
    s.prob_abs_mean += d;
    s.prob_abs_max = std::max(s.prob_abs_max, d);
  }
  s.abs_mean /= n;
  s.k1 /= n;
  s.k3 /= n;
  s.prob_abs_mean /= n;
  s.prob_abs_std = unbiased_std(gaps.prob, s.prob_abs_mean);
  std::ranges::sort(gaps.log);
  s.q05 = quantile(gaps.log, 0.05);
  s.q01 = quantile(gaps.log, 0.01);
  return s;
}

}  // namespace minite::rl
