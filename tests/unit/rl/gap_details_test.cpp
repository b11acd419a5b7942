// Tails, regions, segments, concentration and outliers, against values worked out by hand.
#include "rl/gap_details.h"

#include <cmath>

#include "rl_support.h"
#include "support/expect_error.h"

namespace minite::rl {
namespace {
using test::Data;

TEST(GapDetails, TailsAreQuantilesAndShares) {
  Data d;
  d.add({0.0625, -2.0, 0.25, -0.625, -0.0625}, 1.0);
  const GapTails tails = gap_details(d.batch()).tails;
  const auto at = [&](double p) {
    for (std::size_t i = 0; i < kTailQuantiles.size(); ++i) {
      if (kTailQuantiles[i] == p) return tails.quantile[i];
    }
    return std::nan("");
  };
  EXPECT_DOUBLE_EQ(at(0.05), -2.0 + 0.2 * 1.375);
  EXPECT_DOUBLE_EQ(at(0.5), -0.0625);
  EXPECT_DOUBLE_EQ(at(0.95), 0.0625 + 0.8 * 0.1875);
  EXPECT_DOUBLE_EQ(tails.negative_depth, 1.725);
  EXPECT_EQ(tails.above, (std::array<double, 3>{0.6, 0.4, 0.2}));
  EXPECT_EQ(at(0.05), gap_stats(d.batch()).q05);
}

TEST(GapDetails, RegionsAreSharesOfTheAdvantage) {
  Data d;
  d.add({-1.0, -0.5, 1.0, 0.0}, -2.0);
  d.add({-0.5, 9.0, 0.5, 0.25}, 1.0, {1, 0, 1, 1});
  const GapRegions r = gap_details(d.batch()).regions;
  EXPECT_DOUBLE_EQ(r.neg_neg.share, 4.0 / 11);
  EXPECT_DOUBLE_EQ(r.neg_pos.share, 2.0 / 11);
  EXPECT_DOUBLE_EQ(r.pos_neg.share, 1.0 / 11);
  EXPECT_DOUBLE_EQ(r.pos_pos.share, 2.0 / 11);
  EXPECT_DOUBLE_EQ(r.neg_neg.share_normalized, 1.0 / 3);
  EXPECT_DOUBLE_EQ(r.pos_pos.share_normalized, 2.0 / 9);
  EXPECT_EQ(r.neg_neg.tokens, 2);
  EXPECT_EQ(r.neg_pos.tokens, 1);
  EXPECT_EQ(r.pos_neg.tokens, 1);
  EXPECT_EQ(r.pos_pos.tokens, 2);
  EXPECT_DOUBLE_EQ(r.rho_asym, 2.0);
  EXPECT_DOUBLE_EQ(r.rho_asym_normalized, 1.5);
  const GapStats stats = gap_stats(d.batch());
  EXPECT_DOUBLE_EQ(r.neg_neg.share, stats.region_neg_neg);
  EXPECT_DOUBLE_EQ(r.pos_pos.share, stats.region_pos_pos);
}

TEST(GapDetails, ARatioOverNothingIsInfiniteOrNaN) {
  Data one, none;
  one.add({-1.0}, -1.0);
  none.add({-1.0}, 0.0);
  EXPECT_EQ(gap_details(one.batch()).regions.rho_asym, std::numeric_limits<double>::infinity());
  const GapRegions r = gap_details(none.batch()).regions;
  EXPECT_TRUE(std::isnan(r.rho_asym));
  EXPECT_EQ(r.neg_neg.share, 0.0);
}

TEST(GapDetails, TheTailCountsNegativeAdvantagesOnly) {
  Data d;
  d.add({-2.0, -3.0, 0.0, -2.0, 7.0, -0.5}, -1.0, {1, 1, 1, 1, 0, 1});
  d.add({-5.0, -5.0, -5.0}, 1.0);
  const GapTail tail = gap_details(d.batch(), -1.0).tail;
  EXPECT_EQ(tail.threshold, -1.0);
  EXPECT_DOUBLE_EQ(tail.fraction, 3.0 / 8);
  EXPECT_DOUBLE_EQ(tail.adjacent, 1.0 / 3);  // of positions 0, 1 and 3 only 0 is followed by one
  EXPECT_DOUBLE_EQ(gap_details(d.batch()).tail.threshold, gap_stats(d.batch()).q05);
  EXPECT_TRUE(std::isnan(gap_details(d.batch(), -9.0).tail.adjacent));
}

/// 130 positions of a response with A < 0: 6 tail tokens in the first window of 64, 7 in the second.
Data long_response() {
  std::vector<double> gaps(130, 0.0);
  for (std::size_t t = 0; t < 6; ++t) gaps[t] = -2.0;
  for (std::size_t t = 64; t < 71; ++t) gaps[t] = -2.0;
  Data d;
  d.add(gaps, -1.0);
  return d;
}

TEST(GapDetails, SegmentsAreWindowsOfFixedPositions) {
  const Data d = long_response();
  const GapSegments s = gap_segments(d.batch(), 64, -1.0);
  ASSERT_EQ(s.items.size(), 3u);
  EXPECT_EQ(s.items[1].begin, 64);
  EXPECT_EQ(s.items[1].end, 128);
  EXPECT_EQ(s.items[1].tail, 7);
  EXPECT_EQ(s.items[1].mean, -14.0 / 64);
  EXPECT_EQ(s.items[1].abs_max, 2.0);
  EXPECT_EQ(s.items[2].tokens, 2);
  EXPECT_EQ(s.lowest, -14.0 / 64);
  EXPECT_DOUBLE_EQ(s.heavy, 1.0 / 3);         // 7 of 64 is above 10 %, 6 of 64 is not
  EXPECT_DOUBLE_EQ(s.tail_in_top, 7.0 / 13);  // 5 % of three segments is one
  const GapDetails all = gap_details(d.batch(), -1.0);
  EXPECT_EQ(all.segments[0].size, 64);
  EXPECT_EQ(all.segments[1].size, 128);
  EXPECT_DOUBLE_EQ(all.segments[1].heavy, 0.5);
  EXPECT_DOUBLE_EQ(all.segments[1].tail_in_top, 1.0);
}

TEST(GapDetails, MaskedPositionsKeepTheirPlaceInSegments) {
  Data d = long_response();
  for (std::size_t t = 64; t < 128; ++t) {
    d.mask[t] = 0;
    d.old[t] = std::nan("");
  }
  const GapSegments s = gap_segments(d.batch(), 64, -1.0);
  ASSERT_EQ(s.items.size(), 2u);
  EXPECT_EQ(s.items[1].begin, 128);
}

TEST(GapDetails, TopShare) {
  EXPECT_DOUBLE_EQ(top_share({1, 4, 3, 2}, 0.5), 0.7);
  EXPECT_DOUBLE_EQ(top_share({5, 1}, 0.01), 5.0 / 6);
  EXPECT_DOUBLE_EQ(top_share(std::vector<double>(20, 1.0), 0.05), 0.05) << "one of twenty";
  EXPECT_DOUBLE_EQ(top_share(std::vector<double>(100, 1.0), 0.01), 0.01);
  EXPECT_EQ(top_share({0, 0}, 0.5), 0.0);
}

TEST(GapDetails, ConcentrationCountsTokensAndResponses) {
  Data d;
  for (int i = 0; i < 20; ++i) d.add({0.5, i == 3 ? -4.5 : 0.5}, 1.0);
  const GapConcentration c = gap_details(d.batch()).concentration;
  EXPECT_DOUBLE_EQ(c.tokens[0], 4.5 / 24);
  EXPECT_DOUBLE_EQ(c.tokens[1], 5.0 / 24);
  EXPECT_DOUBLE_EQ(c.responses[1], 5.0 / 24);
}

TEST(GapDetails, AnOutlierStandsFarAboveTheMedian) {
  Data d;
  d.add({0.0078125, -0.0078125}, 1.0);
  d.add({0.0078125}, 1.0);
  d.add({-1.0, 1.0}, -1.0);
  const GapDetails details = gap_details(d.batch());
  EXPECT_EQ(details.outliers, 1);
  ASSERT_EQ(details.responses.size(), 3u);
  EXPECT_EQ(details.responses[2].abs_mean, 1.0);
  EXPECT_EQ(details.responses[2].mean, 0.0);
  EXPECT_EQ(details.responses[2].advantage, -1.0);
  EXPECT_FALSE(is_outlier(0.4, 0.001)) << "small in itself";
  EXPECT_FALSE(is_outlier(1.0, 0.02)) << "50 times the median";
}

TEST(GapDetails, NoGapHasNoTail) {
  Data d;
  d.add({0.0, 0.0, 0.0}, -1.0);
  const GapDetails details = gap_details(d.batch());
  EXPECT_EQ(details.tail.fraction, 0.0);
  EXPECT_EQ(details.regions.neg_neg.share, 0.0);
  EXPECT_EQ(details.concentration.tokens[0], 0.0);
  EXPECT_EQ(details.segments[0].heavy, 0.0);
  EXPECT_EQ(details.outliers, 0);
}

TEST(GapDetails, NothingValidIsRefused) {
  Data d;
  d.add({1.0}, 1.0, {0});
  test_support::expect_error(ErrorCode::invalid_argument, {"no valid token among 1"},
                             [&] { (void)gap_details(d.batch()); });
}

}  // namespace
}  // namespace minite::rl
