#pragma once
// The median of a sample and how well it is known.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace minite {

/// A median with an interval between two order statistics that holds the true median in 95 % of samples or
/// more, whatever the distribution. `known` is false for fewer than 6 values, which no such interval fits:
/// then it is their range.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  bool known = false;
};

/// How many values may lie outside the interval at each end: the largest k with P(Bin(n, 1/2) < k) <= 2.5 %;
/// 0 when there is none.
[[nodiscard]] inline size_t median_interval_rank(size_t n) {
  double below = 0;  // P(Bin < k)
  size_t k = 0;
  while (k <= n / 2) {
    const auto a = static_cast<double>(n), b = static_cast<double>(k);
    const double log2 = 0.6931471805599453;
    below += std::exp(std::lgamma(a + 1) - std::lgamma(b + 1) - std::lgamma(a - b + 1) - a * log2);
    if (below > 0.025) break;
    ++k;
  }
  return k;
}

[[nodiscard]] inline MedianInterval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size(), k = median_interval_rank(n);
  MedianInterval m;
  m.median = n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
  m.known = k > 0;
  m.low = values[k > 0 ? k - 1 : 0];
  m.high = values[k > 0 ? n - k : n - 1];
  return m;
}

}  // namespace minite
