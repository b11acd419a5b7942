#include "rl/objective.h"

#include <algorithm>
#include <cmath>

#include "rl/ratio.h"

namespace minite::rl {

namespace {

TokenTerm vanilla_term(double log_ratio, double advantage, const LossConfig& config) {
  TokenTerm term;
  term.ratio = bounded_exp(log_ratio);
  const double low = 1.0 - config.clip_ratio_low;
  const double high = 1.0 + config.clip_ratio_high;
  // Decided on the ratio and not on the products, whose rounding could merge the two sides.
  term.clipped = (advantage > 0.0 && term.ratio > high) || (advantage < 0.0 && term.ratio < low);
  term.loss = -advantage * (term.clipped ? std::clamp(term.ratio, low, high) : term.ratio);
  const bool saturated = std::abs(log_ratio) > kLogRatioBound;
  term.gradient = term.clipped || saturated ? 0.0 : -advantage * term.ratio;
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

}  // namespace minite::rl
