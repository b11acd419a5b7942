#include "diagnostics/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "diagnostics/published.h"
#include "support/expect_error.h"

namespace minite::diagnostics {
namespace {

constexpr int64_t kCols = 256;

std::vector<float> draw(const char* name, uint64_t seed, float sigma = 1.0f) {
  std::vector<float> x(200 * kCols);
  fill(distribution(name), sigma, seed, kCols, x);
  return x;
}

struct Moments {
  double mean = 0, variance = 0, absolute = 0, kurtosis = 0;
};
Moments moments(const std::vector<float>& x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (const float v : x) {
    m.mean += v / n;
    m.variance += double{v} * v / n;
    m.absolute += std::fabs(double{v}) / n;
    m.kurtosis += std::pow(double{v}, 4) / n;
  }
  m.kurtosis /= m.variance * m.variance;
  return m;
}

/// Moments of the distributions by their formulas; 51,200 draws.
TEST(Synthetic, MomentsAreThoseOfTheDistribution) {
  const struct {
    const char* name;
    double absolute, kurtosis;
  } rows[] = {{"normal", 0.79788, 3}, {"laplace", 0.70711, 6}, {"uniform", 0.86603, 1.8}};
  for (const auto& row : rows) {
    for (const uint64_t seed : {0u, 7u}) {
      const Moments m = moments(draw(row.name, seed));
      EXPECT_NEAR(m.mean, 0, 0.02) << row.name;
      EXPECT_NEAR(m.variance, 1, 0.03) << row.name;
      EXPECT_NEAR(m.absolute, row.absolute, 0.01) << row.name;
      EXPECT_NEAR(m.kurtosis, row.kurtosis, 0.06 * row.kurtosis) << row.name;
    }
  }
}

TEST(Synthetic, OutliersAreWholeColumns) {
  const std::vector<float> x = draw("outlier", 3), plain = draw("normal", 3);
  int loud = 0;
  for (int64_t c = 0; c < kCols; ++c) {
    const auto factor = [&](int64_t r) {
      const auto at = static_cast<size_t>(r * kCols + c);
      return x[at] / plain[at];
    };
    for (int64_t r = 1; r < 200; ++r) ASSERT_EQ(factor(r), factor(0)) << c;
    ASSERT_TRUE(factor(0) == 1.0f || factor(0) == 32.0f) << factor(0);
    loud += factor(0) == 32.0f ? 1 : 0;
  }
  EXPECT_GT(loud, 0);
  EXPECT_LT(loud, 16);
}

TEST(Synthetic, DependOnSeedAndPlaceOnly) {
  EXPECT_EQ(draw("normal", 1), draw("normal", 1));
  EXPECT_NE(draw("normal", 1), draw("normal", 2));
  EXPECT_EQ(draw("normal", 1, 2.0f)[5], 2.0f * draw("normal", 1)[5]);
  test_support::expect_error(ErrorCode::not_found, {"'gaus'", "normal"}, [] { (void)distribution("gaus"); });
}

TEST(Published, RowsAreFoundAndTheSummaryAgreesWithItself) {
  const PublishedTable& real = published_real_inputs();
  ASSERT_NE(real.find("e2m4", "e8m0"), nullptr);
  EXPECT_EQ(real.find("e2m4", "e8m0")->snr_db, 36.41);
  EXPECT_EQ(real.find("e2m4", "e5m2"), nullptr);
  // SNR = -20 log10 of relative L2 holds for one tensor; over layers a mean of one is near that of the other.
  for (const PublishedRow& row : real.rows) {
    if (row.worst_snr_db < 18) continue;
    EXPECT_NEAR(row.snr_db, -20 * std::log10(row.relative_l2), 0.5) << row.element;
  }
}

TEST(Published, OrderAndDifferences) {
  const std::vector<RankedFormat> ours =
      ranked({{"a", "s", 1}, {"b", "s", NAN}, {"c", "s", 3}, {"d", "s", 2}});
  EXPECT_EQ(order_text(ours), "C+S > D+S > A+S > B+S (NaN)");
  const std::vector<RankedFormat> theirs =
      ranked({{"a", "s", 2}, {"c", "s", 2}, {"d", "s", 5}, {"x", "s", 9}});
  EXPECT_EQ(order_text(theirs), "X+S > D+S > A+S = C+S");
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(pairs_in_another_order(ours, theirs), (Pairs{{"C+S", "D+S"}})) << "equal values are in no order";
  EXPECT_EQ(pairs_in_another_order(ours, ours), Pairs{});
}

}  // namespace
}  // namespace minite::diagnostics
