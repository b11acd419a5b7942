// The median's interval: the ranks of textbook tables, and how often it holds the true median.
#include "core/median.h"

#include <gtest/gtest.h>

#include "core/philox.h"

namespace minite {
namespace {

TEST(Median, RanksAreThoseOfTheSignTest) {
  // Tables of the sign test at 2.5 % a side: the k-th smallest and largest of n values.
  const std::pair<size_t, size_t> table[] = {{5, 0},  {6, 1},   {8, 1},   {9, 2},   {12, 3},
                                             {20, 6}, {30, 10}, {50, 18}, {100, 40}};
  for (const auto& [n, k] : table) EXPECT_EQ(median_interval_rank(n), k) << n;
}

TEST(Median, OfFewValues) {
  EXPECT_EQ(median_interval({3, 1, 2}).median, 2);
  const MedianInterval four = median_interval({4, 1, 2, 3});
  EXPECT_EQ(four.median, 2.5);
  EXPECT_FALSE(four.known);
  EXPECT_EQ(four.low, 1);
  EXPECT_EQ(four.high, 4);
  const MedianInterval nine = median_interval({9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_TRUE(nine.known);
  EXPECT_EQ(nine.low, 2);
  EXPECT_EQ(nine.high, 8);
}

TEST(Median, TheIntervalHoldsTheTrueMedianNineteenTimesInTwenty) {
  // u^4 of a uniform u: skewed, with the median 1/16.
  constexpr int kSamples = 4000, kSize = 30;
  int held = 0;
  for (int s = 0; s < kSamples; ++s) {
    std::vector<double> x;
    for (int i = 0; i < kSize; ++i) {
      const double u = Philox::unit(Philox::generate(5, static_cast<uint64_t>(s * kSize + i), 0)[0]);
      x.push_back(u * u * u * u);
    }
    const MedianInterval m = median_interval(x);
    held += m.low <= 0.0625 && 0.0625 <= m.high ? 1 : 0;
  }
  // For n = 30 and k = 10 the interval holds it with 95.7 %; 4000 samples know that to 0.32 %.
  EXPECT_NEAR(held / double{kSamples}, 0.957, 0.012);
}

}  // namespace
}  // namespace minite
