// Statistics of the gap between stored log-probs, in FP64.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/fail.h"
#include "minite/rl.h"
#include "rl/quantile.h"
#include "rl/ratio.h"

namespace minite::rl {
namespace {

constexpr double kTail = -6.0, kClose = 0.05;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Values of the valid tokens.
struct Tokens {
  std::vector<double> log;               // lO - lS
  std::vector<double> p_old, p_sampler;  // probabilities
  std::vector<double> prob;              // |exp(lO) - exp(lS)|
};

// Of one response with n valid tokens.
struct Response {
  double old = 0.0, sampler = 0.0;  // sums of log-probs
  double log = 0.0, abs = 0.0;      // sums of x and |x|
  double n = 0.0;
};

Response collect(const Batch& batch, std::int64_t i, Tokens& tokens) {
  Response r;
  for (std::int64_t t = batch.offsets[i]; t < batch.offsets[i + 1]; ++t) {
    if (batch.mask[t] == 0) continue;
    const double old = batch.logp_old[t], sampler = batch.logp_sampler[t], x = old - sampler;
    tokens.log.push_back(x);
    tokens.p_old.push_back(std::exp(old));
    tokens.p_sampler.push_back(std::exp(sampler));
    tokens.prob.push_back(std::abs(tokens.p_old.back() - tokens.p_sampler.back()));
    r.old += old, r.sampler += sampler, r.log += x, r.abs += std::abs(x), r.n += 1.0;
  }
  return r;
}

double unbiased_std(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return 0.0;
  double squares = 0.0;
  for (double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// sqrt(v v) is v, so equal sides give exactly 1.
double pearson(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double aa = 0.0, bb = 0.0, ab = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  const double scale = std::sqrt(aa * bb);
  return scale > 0.0 ? ab / scale : (a == b ? 1.0 : 0.0);
}

// Sums become means.
void divide(GapStats& s, double n, std::initializer_list<double GapStats::*> members) {
  for (double GapStats::*member : members) s.*member /= n;
}

void add_tokens(const Tokens& tokens, GapStats& s) {
  for (double x : tokens.log) {
    const double bounded = std::clamp(x, -kLogRatioBound, kLogRatioBound);
    s.abs_mean += std::abs(x);
    s.abs_max = std::max(s.abs_max, std::abs(x));
    s.k1 -= x;
    s.k2 += 0.5 * x * x;
    s.k3 += (std::expm1(bounded) - bounded);
    s.mult_prob_error += std::exp(std::abs(bounded));
    s.chi2_token += std::expm1(2.0 * bounded);
    s.tail_fraction += (x < kTail ? 1.0 : 0.0);
    s.within_fraction += (std::abs(x) < kClose ? 1.0 : 0.0);
  }
  divide(s, static_cast<double>(tokens.log.size()),
         {&GapStats::abs_mean, &GapStats::k1, &GapStats::k2, &GapStats::k3, &GapStats::mult_prob_error,
          &GapStats::chi2_token, &GapStats::tail_fraction, &GapStats::within_fraction});
  s.prob_abs_mean = mean_of(tokens.prob);
  s.prob_abs_max = *std::max_element(tokens.prob.begin(), tokens.prob.end());
  s.prob_abs_std = unbiased_std(tokens.prob, s.prob_abs_mean);
  s.prob_pearson = pearson(tokens.p_old, tokens.p_sampler);
  std::vector<double> sorted = tokens.log;
  std::ranges::sort(sorted);
  s.q05 = quantile(sorted, 0.05);
  s.q01 = quantile(sorted, 0.01);
}

// The regions where an update widens the gap of its token: it pushes the learner further away.
void add_regions(const Batch& batch, GapStats& s) {
  double total = 0.0;
  for (std::int64_t t = 0; t < batch.n_tokens(); ++t) {
    if (batch.mask[t] == 0) continue;
    const double a = batch.advantage[t], x = batch.logp_old[t] - batch.logp_sampler[t];
    total += std::abs(a);
    if (a < 0.0 && x < 0.0) s.region_neg_neg -= a;
    if (a > 0.0 && x > 0.0) s.region_pos_pos += a;
  }
  if (total > 0.0) divide(s, total, {&GapStats::region_neg_neg, &GapStats::region_pos_pos});
}

void add_responses(const std::vector<Response>& responses, GapStats& s) {
  std::vector<double> means;
  for (const Response& r : responses) {
    means.push_back(r.abs / r.n);
    const double diff = (r.sampler - r.old) / r.n;
    s.training_ppl += std::exp(-r.old / r.n);
    s.rollout_ppl += std::exp(-r.sampler / r.n);
    s.log_ppl_diff += diff;
    s.log_ppl_abs_diff += std::abs(diff);
    s.ppl_ratio += std::exp(diff);
    s.chi2_seq += std::expm1(2.0 * std::clamp(r.log, -kLogRatioBound, kLogRatioBound));
  }
  divide(s, static_cast<double>(responses.size()),
         {&GapStats::training_ppl, &GapStats::rollout_ppl, &GapStats::log_ppl_diff,
          &GapStats::log_ppl_abs_diff, &GapStats::ppl_ratio, &GapStats::chi2_seq});
  std::ranges::sort(means);
  s.response_max = means.back();
  s.response_q50 = quantile(means, 0.5);
  s.response_q95 = quantile(means, 0.95);
}

}  // namespace

GapStats gap_stats(const Batch& batch) {
  validate(batch);
  Tokens tokens;
  std::vector<Response> responses;
  for (std::int64_t i = 0; i < batch.n_responses(); ++i) {
    const Response r = collect(batch, i, tokens);
    if (r.n > 0.0) responses.push_back(r);
  }
  require(!tokens.log.empty(), "gap: no valid token among {}; there is nothing to average", batch.n_tokens());
  GapStats s;
  s.tokens = static_cast<std::int64_t>(tokens.log.size());
  add_tokens(tokens, s);
  add_responses(responses, s);
  add_regions(batch, s);
  return s;
}

}  // namespace minite::rl
