#include "rl/gap_details.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fail.h"
#include "rl/quantile.h"

namespace minite::rl {
namespace {

double gap_of(const Batch& batch, std::int64_t t) { return batch.logp_old[t] - batch.logp_sampler[t]; }

std::vector<double> valid_gaps(const Batch& batch) {
  std::vector<double> gaps;
  for (std::int64_t t = 0; t < batch.n_tokens(); ++t) {
    if (batch.mask[t] != 0) gaps.push_back(gap_of(batch, t));
  }
  return gaps;
}

GapTails tails_of(std::vector<double> gaps) {
  GapTails tails;
  std::ranges::sort(gaps);
  for (std::size_t i = 0; i < kTailQuantiles.size(); ++i)
    tails.quantile[i] = quantile(gaps, kTailQuantiles[i]);
  for (std::size_t i = 0; i < kTailBounds.size(); ++i) {
    const auto above = std::ranges::count_if(gaps, [&](double x) { return std::abs(x) > kTailBounds[i]; });
    tails.above[i] = static_cast<double>(above) / static_cast<double>(gaps.size());
  }
  tails.negative_depth = -quantile(gaps, 0.05);
  return tails;
}

std::vector<GapResponse> responses_of(const Batch& batch) {
  std::vector<GapResponse> all;
  for (std::int64_t i = 0; i < batch.n_responses(); ++i) {
    GapResponse r{.response = i};
    for (std::int64_t t = batch.offsets[i]; t < batch.offsets[i + 1]; ++t) {
      if (batch.mask[t] == 0) continue;
      const double x = gap_of(batch, t);
      ++r.tokens;
      r.mean += x;
      r.abs_mean += std::abs(x);
      r.abs_max = std::max(r.abs_max, std::abs(x));
      r.advantage += batch.advantage[t];
    }
    if (r.tokens == 0) continue;
    for (double* mean : {&r.mean, &r.abs_mean, &r.advantage}) *mean /= static_cast<double>(r.tokens);
    all.push_back(r);
  }
  return all;
}

GapRegion* region(GapRegions& all, double a, double x) {
  if (a < 0.0) return x < 0.0 ? &all.neg_neg : x > 0.0 ? &all.neg_pos : nullptr;
  if (a > 0.0) return x < 0.0 ? &all.pos_neg : x > 0.0 ? &all.pos_pos : nullptr;
  return nullptr;
}

double ratio(double above, double below) {
  if (below > 0.0) return above / below;
  return above > 0.0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
}

GapRegions regions_of(const Batch& batch, const std::vector<GapResponse>& responses) {
  GapRegions all;
  double total = 0.0, total_normalized = 0.0;
  for (const GapResponse& r : responses) {
    for (std::int64_t t = batch.offsets[r.response]; t < batch.offsets[r.response + 1]; ++t) {
      if (batch.mask[t] == 0) continue;
      const double weight = std::abs(batch.advantage[t]);
      const double normalized = weight / static_cast<double>(r.tokens);
      total += weight;
      total_normalized += normalized;
      GapRegion* at = region(all, batch.advantage[t], gap_of(batch, t));
      if (at == nullptr) continue;
      at->share += weight;
      at->share_normalized += normalized;
      ++at->tokens;
    }
  }
  all.rho_asym = ratio(all.neg_neg.share, all.pos_pos.share);
  all.rho_asym_normalized = ratio(all.neg_neg.share_normalized, all.pos_pos.share_normalized);
  for (GapRegion* r : {&all.neg_neg, &all.neg_pos, &all.pos_neg, &all.pos_pos}) {
    r->share = total > 0.0 ? r->share / total : 0.0;
    r->share_normalized = total_normalized > 0.0 ? r->share_normalized / total_normalized : 0.0;
  }
  return all;
}

GapTail tail_of(const Batch& batch, std::int64_t tokens, double threshold) {
  GapTail tail{.threshold = threshold};
  std::int64_t count = 0, followed = 0, adjacent = 0;
  for (std::int64_t i = 0; i < batch.n_responses(); ++i) {
    bool before = false;  // whether the valid token before is in the tail
    for (std::int64_t t = batch.offsets[i]; t < batch.offsets[i + 1]; ++t) {
      if (batch.mask[t] == 0) continue;
      const bool now = batch.advantage[t] < 0.0 && gap_of(batch, t) < threshold;
      count += now ? 1 : 0;
      followed += before ? 1 : 0;
      adjacent += before && now ? 1 : 0;
      before = now;
    }
  }
  tail.fraction = static_cast<double>(count) / static_cast<double>(tokens);
  tail.adjacent = followed > 0 ? static_cast<double>(adjacent) / static_cast<double>(followed)
                               : std::numeric_limits<double>::quiet_NaN();
  return tail;
}

GapConcentration concentration_of(const std::vector<double>& gaps,
                                  const std::vector<GapResponse>& responses) {
  std::vector<double> sizes, sums;
  for (double x : gaps) sizes.push_back(std::abs(x));
  for (const GapResponse& r : responses) sums.push_back(r.abs_mean * static_cast<double>(r.tokens));
  GapConcentration c;
  for (std::size_t i = 0; i < kTopShares.size(); ++i) {
    c.tokens[i] = top_share(sizes, kTopShares[i]);
    c.responses[i] = top_share(sums, kTopShares[i]);
  }
  return c;
}

std::int64_t count_outliers(const std::vector<GapResponse>& responses) {
  std::vector<double> means;
  for (const GapResponse& r : responses) means.push_back(r.abs_mean);
  std::ranges::sort(means);
  const double median = quantile(means, 0.5);
  return std::ranges::count_if(means, [&](double mean) { return is_outlier(mean, median); });
}

}  // namespace

GapDetails gap_details(const Batch& batch, std::optional<double> tail_threshold) {
  validate(batch);
  const std::vector<double> gaps = valid_gaps(batch);
  require(!gaps.empty(), "gap: no valid token among {}; there is nothing to average", batch.n_tokens());
  GapDetails d;
  d.tails = tails_of(gaps);
  d.responses = responses_of(batch);
  d.regions = regions_of(batch, d.responses);
  d.tail = tail_of(batch, static_cast<std::int64_t>(gaps.size()),
                   tail_threshold.value_or(-d.tails.negative_depth));
  for (std::size_t i = 0; i < kSegmentSizes.size(); ++i)
    d.segments[i] = gap_segments(batch, kSegmentSizes[i], d.tail.threshold);
  d.concentration = concentration_of(gaps, d.responses);
  d.outliers = count_outliers(d.responses);
  return d;
}

}  // namespace minite::rl
