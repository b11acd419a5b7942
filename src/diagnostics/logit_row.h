#pragma once
// What a capture keeps of a row of logits that it does not store.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace minite::diagnostics {

/// log sum exp(x / temperature).
[[nodiscard]] inline double log_sum_exp(std::span<const double> x, double temperature) {
  const double top = *std::ranges::max_element(x);
  double sum = 0;
  for (const double value : x) sum += std::exp((value - top) / temperature);
  return top / temperature + std::log(sum);
}

/// Probability that the best `top_k` (0: all) tokens, cut to the shortest run that reaches `top_p` of theirs,
/// have under the full softmax; 1 when both leave all.
[[nodiscard]] inline double kept_mass(std::span<const double> x, double temperature, int64_t top_k,
                                      double top_p) {
  const auto all = static_cast<int64_t>(x.size());
  const int64_t k = top_k > 0 ? std::min(top_k, all) : all;
  if (k == all && top_p >= 1.0) return 1.0;
  std::vector<double> best(x.begin(), x.end());
  std::ranges::sort(best, std::greater{});
  const double lse = log_sum_exp(x, temperature);
  double total = 0, reached = 0;
  for (int64_t i = 0; i < k; ++i) total += std::exp(best[static_cast<size_t>(i)] / temperature - lse);
  for (int64_t i = 0; i < k && (i == 0 || reached < top_p * total); ++i)
    reached += std::exp(best[static_cast<size_t>(i)] / temperature - lse);
  return reached;
}

}  // namespace minite::diagnostics
