#pragma once
// The quantile that every statistic of this room means.
#include <algorithm>
#include <cstddef>
#include <span>

namespace minite::rl {

/// The p-quantile, 0 <= p <= 1, of `sorted` (ascending, not empty): linear interpolation between order
/// statistics at (n - 1) p, as numpy and torch do by default.
inline double quantile(std::span<const double> sorted, double p) {
  const double position = static_cast<double>(sorted.size() - 1) * p;
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (position - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace minite::rl
