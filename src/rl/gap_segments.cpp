// Segments of a gap: windows of fixed positions, as TRIAGE's Gate and Repair take them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "rl/gap_details.h"
#include "rl/quantile.h"
#include "rl/triage.h"

namespace minite::rl {
namespace {

constexpr double kHeavy = 0.1, kTopSegments = 0.05;

GapSegment measure(const Batch& batch, std::int64_t response, const RepairSegment& window, double threshold) {
  const std::int64_t first = batch.offsets[response];
  GapSegment s{.response = response,
               .begin = window.begin - first,
               .end = window.end - first,
               .tokens = window.n_valid,
               .advantage = window.mean_advantage};
  for (std::int64_t t = window.begin; t < window.end; ++t) {
    if (batch.mask[t] == 0) continue;
    const double x = batch.logp_old[t] - batch.logp_sampler[t];
    s.mean += x;
    s.abs_mean += std::abs(x);
    s.abs_max = std::max(s.abs_max, std::abs(x));
    s.tail += batch.advantage[t] < 0.0 && x < threshold ? 1 : 0;
  }
  s.mean /= static_cast<double>(s.tokens);
  s.abs_mean /= static_cast<double>(s.tokens);
  return s;
}

}  // namespace

double top_share(std::vector<double> values, double share) {
  std::ranges::sort(values, std::greater());
  // 0.05 * 20 is a little more than 1 in FP64: no rounding error may add an item.
  const auto n = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size()) - 1e-9));
  const double total = std::accumulate(values.begin(), values.end(), 0.0);
  return total > 0.0 ? std::accumulate(values.begin(), values.begin() + n, 0.0) / total : 0.0;
}

GapSegments gap_segments(const Batch& batch, std::int64_t size, double threshold) {
  GapSegments out;
  out.size = size;
  std::vector<double> means, tails;
  std::int64_t heavy = 0, tail = 0;
  for (std::int64_t i = 0; i < batch.n_responses(); ++i) {
    std::vector<RepairSegment> windows;
    append_repair_segments(batch, batch.offsets[i], batch.offsets[i + 1], size, windows);
    for (const RepairSegment& window : windows) {
      const GapSegment s = measure(batch, i, window, threshold);
      means.push_back(s.mean);
      tails.push_back(static_cast<double>(s.tail));
      heavy += static_cast<double>(s.tail) > kHeavy * static_cast<double>(s.tokens) ? 1 : 0;
      tail += s.tail;
      out.items.push_back(s);
    }
  }
  if (means.empty()) return out;
  std::ranges::sort(means);
  out.q05 = quantile(means, 0.05);
  out.q50 = quantile(means, 0.5);
  out.lowest = means.front();
  out.heavy = static_cast<double>(heavy) / static_cast<double>(means.size());
  out.tail_in_top =
      tail > 0 ? top_share(std::move(tails), kTopSegments) : std::numeric_limits<double>::quiet_NaN();
  return out;
}

}  // namespace minite::rl
