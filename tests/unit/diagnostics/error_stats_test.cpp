#include "diagnostics/error_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace minite::diagnostics {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(ErrorStats, FormulasOfTheReport) {
  ErrorStats stats;
  stats.add(std::vector<float>{3, 0, -4}, std::vector<float>{3, 1, -2});
  EXPECT_DOUBLE_EQ(stats.signal, 25);
  EXPECT_DOUBLE_EQ(stats.noise, 5);
  EXPECT_DOUBLE_EQ(stats.relative_l2(), std::sqrt(5.0) / 5.0);
  EXPECT_DOUBLE_EQ(stats.snr_db(), 20 * std::log10(5.0 / std::sqrt(5.0)));
  EXPECT_DOUBLE_EQ(stats.mae(), 1.0);
}

TEST(ErrorStats, PiecesAddUpToTheWholeBitForBit) {
  std::vector<float> x, y;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(std::sin(static_cast<float>(i)) * static_cast<float>(i));
    y.push_back(x.back() * 1.01f);
  }
  ErrorStats whole, pieces;
  whole.add(x, y);
  const std::span<const float> a(x), b(y);
  for (size_t i = 0; i < 1000; i += 37) {
    const size_t n = std::min<size_t>(37, 1000 - i);
    pieces.add(a.subspan(i, n), b.subspan(i, n));
  }
  double signal = 0, noise = 0, absolute = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = double{y[i]} - double{x[i]};
    signal += double{x[i]} * double{x[i]};
    noise += d * d;
    absolute += std::fabs(d);
  }
  EXPECT_EQ(whole.signal, signal);
  EXPECT_EQ(pieces.signal, signal);
  EXPECT_EQ(pieces.noise, noise);
  EXPECT_EQ(pieces.absolute, absolute);
  EXPECT_EQ(pieces.count, 1000);
}

/// 0.1 - 3 has no FP32 value: the difference is FP64.
TEST(ErrorStats, DifferencesAreNotRoundedToFp32) {
  ErrorStats stats;
  stats.add(std::vector<float>{3}, std::vector<float>{0.1f});
  EXPECT_EQ(stats.absolute, 3.0 - double{0.1f});
  EXPECT_EQ(stats.noise, (3.0 - double{0.1f}) * (3.0 - double{0.1f}));
}

TEST(ErrorStats, NonFiniteOriginalsAreCountedAndLeftOut) {
  ErrorStats stats;
  stats.add(std::vector<float>{kNan, kInf, 2}, std::vector<float>{0, kInf, 1});
  EXPECT_EQ(stats.nonfinite, 2);
  EXPECT_EQ(stats.nonfinite_decoded, 1);
  EXPECT_EQ(stats.relative_l2(), 0.5);
  EXPECT_EQ(stats.mae(), 1);
}

TEST(ErrorStats, NanFromAFiniteOriginalShows) {
  ErrorStats stats;
  stats.add(std::vector<float>{1, 2}, std::vector<float>{1, kNan});
  EXPECT_TRUE(std::isnan(stats.relative_l2()));
  EXPECT_TRUE(std::isnan(stats.snr_db()));
  EXPECT_TRUE(std::isnan(stats.mae()));
}

TEST(ErrorStats, EdgesAreDefined) {
  ErrorStats none, exact, from_zero;
  EXPECT_EQ(none.relative_l2(), 0);
  EXPECT_EQ(none.snr_db(), kInf);
  EXPECT_EQ(none.mae(), 0);
  exact.add(std::vector<float>{0, 0}, std::vector<float>{0, 0});
  EXPECT_EQ(exact.relative_l2(), 0);
  from_zero.add(std::vector<float>{0}, std::vector<float>{1});
  EXPECT_EQ(from_zero.relative_l2(), kInf);
  EXPECT_EQ(from_zero.snr_db(), -kInf);
}

}  // namespace
}  // namespace minite::diagnostics
