#pragma once
// Scores of repeated attempts.
#include <cstdint>

namespace minite::tasks {

/// Probability that at least one of k attempts drawn without replacement from n, of which c are right, is
/// right: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, arXiv:2107.03374, section 2.1). Needs 1 <= k <= n.
[[nodiscard]] constexpr double pass_at_k(int64_t n, int64_t c, int64_t k) {
  double all_wrong = 1.0;
  for (int64_t i = 0; i < k; ++i) {
    if (n - c - i <= 0) return 1.0;
    all_wrong *= static_cast<double>(n - c - i) / static_cast<double>(n - i);
  }
  return 1.0 - all_wrong;
}

}  // namespace minite::tasks
