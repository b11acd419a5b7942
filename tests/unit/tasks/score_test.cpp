// pass@k against counting.
#include "tasks/score.h"

#include "support.h"

namespace minite::tasks {
namespace {

/// Exact up to C(20, 10).
int64_t binomial(int64_t n, int64_t k) {
  if (k < 0 || k > n) return 0;
  int64_t result = 1;
  for (int64_t i = 1; i <= k; ++i) result = result * (n - k + i) / i;
  return result;
}

TEST(PassAtK, IsTheBinomialFormula) {
  for (int64_t n = 1; n <= 20; ++n) {
    for (int64_t c = 0; c <= n; ++c) {
      for (int64_t k = 1; k <= n; ++k) {
        const double wrong = static_cast<double>(binomial(n - c, k)) / static_cast<double>(binomial(n, k));
        EXPECT_NEAR(pass_at_k(n, c, k), 1.0 - wrong, 1e-14) << n << " " << c << " " << k;
      }
    }
  }
}

TEST(PassAtK, CountsDraws) {
  // All subsets of 4 out of 9 attempts, of which the first 3 are right.
  int hits = 0, all = 0;
  for (int set = 0; set < 1 << 9; ++set) {
    if (__builtin_popcount(static_cast<unsigned>(set)) != 4) continue;
    ++all;
    hits += (set & 0b111) != 0;
  }
  EXPECT_NEAR(pass_at_k(9, 3, 4), static_cast<double>(hits) / all, 1e-15);
}

TEST(PassAtK, Ends) {
  EXPECT_EQ(pass_at_k(1, 0, 1), 0.0);
  EXPECT_EQ(pass_at_k(1, 1, 1), 1.0);
  EXPECT_EQ(pass_at_k(8, 0, 8), 0.0);
  EXPECT_EQ(pass_at_k(8, 1, 8), 1.0);
  EXPECT_EQ(pass_at_k(8, 6, 3), 1.0);  // fewer than 3 wrong ones
  EXPECT_NEAR(pass_at_k(8, 2, 1), 0.25, 1e-15);
  EXPECT_NEAR(pass_at_k(1000000, 1, 500000), 0.5, 1e-9);
}

}  // namespace
}  // namespace minite::tasks
