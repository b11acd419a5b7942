#include "rl/objective.h"

#include <algorithm>
#include <cmath>

#include "rl/ratio.h"

namespace minite::rl {

namespace {

// verl compute_policy_loss_gspo: exp(10) = 22026 per token keeps a whole response far from overflow.
constexpr double kMaxSequenceLogRatio = 10.0;

/// The clipped surrogate of one ratio, with the gradient of a token whose log-ratio it is.
TokenTerm clipped_term(double ratio, double advantage, const LossConfig& config) {
  TokenTerm term;
  term.ratio = ratio;
  const double low = 1.0 - config.clip_ratio_low;
  const double high = 1.0 + config.clip_ratio_high;
  // Decided on the ratio and not on the products, whose rounding could merge the two sides.
  term.clipped = (advantage > 0.0 && term.ratio > high) || (advantage < 0.0 && term.ratio < low);
  term.loss = -advantage * (term.clipped ? std::clamp(term.ratio, low, high) : term.ratio);
  term.gradient = term.clipped ? 0.0 : -advantage * term.ratio;
  return term;
}

TokenTerm vanilla_term(double log_ratio, double advantage, const LossConfig& config) {
  TokenTerm term = clipped_term(bounded_exp(log_ratio), advantage, config);
  if (std::abs(log_ratio) > kLogRatioBound) term.gradient = 0.0;
  if (config.clip_ratio_c && advantage < 0.0 && term.ratio > *config.clip_ratio_c) {
    term.clipped_lower = true;
    term.loss = -advantage * *config.clip_ratio_c;
    term.gradient = 0.0;
  }
  return term;
}

}  // namespace

void vanilla_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out) {
  for (std::size_t t = 0; t < response.mask.size(); ++t) {
    if (response.mask[t] == 0) continue;
    out[t] = vanilla_term(response.logp_live[t] - response.logp_old[t], response.advantage[t], config);
  }
}

void gspo_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out) {
  double sum = 0.0;
  std::int64_t n = 0;
  for (std::size_t t = 0; t < response.mask.size(); ++t) {
    if (response.mask[t] == 0) continue;
    sum += response.logp_live[t] - response.logp_old[t];
    ++n;
  }
  if (n == 0) return;
  const double mean = sum / static_cast<double>(n);
  const double ratio = std::exp(std::min(mean, kMaxSequenceLogRatio));
  for (std::size_t t = 0; t < response.mask.size(); ++t) {
    if (response.mask[t] == 0) continue;
    out[t] = clipped_term(ratio, response.advantage[t], config);
    if (mean > kMaxSequenceLogRatio) out[t].gradient = 0.0;
  }
}

void geo_mean_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out) {
  double sum = 0.0;
  std::int64_t n = 0;
  for (std::size_t t = 0; t < response.mask.size(); ++t) {
    if (response.mask[t] == 0) continue;
    const double x = response.logp_live[t] - response.logp_old[t], a = response.advantage[t];
    const double held = a > 0.0   ? std::min(x, config.clip_ratio_high)
                        : a < 0.0 ? std::max(x, -config.clip_ratio_low)
                                  : x;
    out[t].clipped = held != x;
    sum += held;
    ++n;
  }
  if (n == 0) return;
  const double mean = sum / static_cast<double>(n);
  const double ratio = std::exp(std::min(mean, kMaxSequenceLogRatio));
  for (std::size_t t = 0; t < response.mask.size(); ++t) {
    if (response.mask[t] == 0) continue;
    out[t].ratio = ratio;
    out[t].loss = -response.advantage[t] * ratio;
    out[t].gradient = out[t].clipped || mean > kMaxSequenceLogRatio ? 0.0 : out[t].loss;
  }
}

void sapo_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out) {
  for (std::size_t t = 0; t < response.mask.size(); ++t) {
    if (response.mask[t] == 0) continue;
    const double x = response.logp_live[t] - response.logp_old[t], a = response.advantage[t];
    const double tau = a > 0.0 ? config.tau_pos : config.tau_neg;
    TokenTerm& term = out[t];
    term.ratio = bounded_exp(x);
    const double gate = 1.0 / (1.0 + std::exp(-tau * (term.ratio - 1.0)));
    term.loss = -a * gate * (4.0 / tau);
    term.gradient = std::abs(x) > kLogRatioBound ? 0.0 : -a * 4.0 * gate * (1.0 - gate) * term.ratio;
  }
}

void cispo_terms(const ResponseView& response, const LossConfig& config, std::span<TokenTerm> out) {
  const double low = std::max(0.0, 1.0 - config.clip_ratio_low);
  for (std::size_t t = 0; t < response.mask.size(); ++t) {
    if (response.mask[t] == 0) continue;
    TokenTerm& term = out[t];
    term.ratio = bounded_exp(response.logp_live[t] - response.logp_old[t]);
    const double weight = std::clamp(term.ratio, low, 1.0 + config.clip_ratio_high);
    term.clipped = weight != term.ratio;
    term.gradient = -weight * response.advantage[t];
    term.loss = term.gradient * response.logp_live[t];
  }
}

}  // namespace minite::rl
