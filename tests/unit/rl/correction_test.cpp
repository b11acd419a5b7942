#include <cmath>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

Prepared with(const Data& d, RolloutIs level, IsThreshold threshold = {}) {
  LossConfig c;
  c.rollout_is = level;
  c.rollout_is_threshold = threshold;
  return prepare(d.batch(), c);
}

TEST(Correction, NoneLeavesWeightOneAndMeasuresTheTokenRatio) {
  Data d;
  d.add({0.5, -0.5, 2.0}, 1, {1, 0, 1});
  const Prepared p = with(d, RolloutIs::none);
  EXPECT_EQ(p.is_weight, (std::vector<double>{1, 0, 1}));
  EXPECT_NEAR(p.is_sums.ratio, std::exp(0.5) + std::exp(2.0), 1e-14);
  EXPECT_NEAR(p.is_sums.abs_error, std::exp(0.5) + std::exp(2.0) - 2, 1e-14);
  EXPECT_EQ(p.is_sums.changed, 0);
}

TEST(Correction, TokenTisClampsBothSides) {
  Data d;
  d.add({0.5, 2.0, -2.0}, 1);
  const Prepared p = with(d, RolloutIs::token, {0.5, 2.0, OutOfRange::truncate});
  EXPECT_DOUBLE_EQ(p.is_weight[0], std::exp(0.5));
  EXPECT_EQ(p.is_weight[1], 2.0);
  EXPECT_EQ(p.is_weight[2], 0.5);
  EXPECT_EQ(p.is_sums.changed, 2);
}

TEST(Correction, IcePopZeroesOutsideAndKeepsTheDenominator) {
  Data d;
  d.add({0.5, 2.0, -2.0, 0.0}, 1);
  const Prepared p = with(d, RolloutIs::token, parse_is_threshold("0.5_5.0"));
  EXPECT_DOUBLE_EQ(p.is_weight[0], std::exp(0.5));
  EXPECT_EQ(p.is_weight[1], 0.0);  // e^2 = 7.39
  EXPECT_EQ(p.is_weight[2], 0.0);
  EXPECT_EQ(p.is_weight[3], 1.0);
  EXPECT_EQ(p.is_sums.changed, 2);
  EXPECT_EQ(p.totals.tokens, 4);
  EXPECT_EQ(p.totals.weight_units, 400);
  const Result r = run(d, p, 0, 1);
  EXPECT_NEAR(r.loss, -(std::exp(0.5) + 1.0) / 4.0, 1e-15);
}

// A sequence ratio is the exponential of the sum, not of the mean: 0.012 over 100 tokens is exp(1.2).
TEST(Correction, SequenceRatioIsTheSum) {
  Data d;
  d.add(std::vector<double>(100, 0.012), 1);
  const Prepared p = with(d, RolloutIs::sequence, {0.0, 10.0, OutOfRange::truncate});
  for (double w : p.is_weight) EXPECT_NEAR(w, std::exp(1.2), 1e-12);
  EXPECT_EQ(with(d, RolloutIs::sequence).is_weight[7], 2.0);
  EXPECT_EQ(with(d, RolloutIs::sequence, {0.5, 3.0, OutOfRange::mask}).is_weight[7], 0.0);
}

// The same gap as a geometric mean: exp(0.012), whatever the length.
TEST(Correction, GeometricRatioIsTheMean) {
  for (const std::size_t length : {1, 100, 1000}) {
    Data d;
    d.add(std::vector<double>(length, 0.012), 1);
    for (double w : with(d, RolloutIs::geometric).is_weight) EXPECT_NEAR(w, std::exp(0.012), 1e-14);
  }
  Data d;
  d.add({0.4, 99.0, -0.2}, 1, {1, 0, 1});
  d.add({5.0}, 1, {0});
  const Prepared p = with(d, RolloutIs::geometric);
  EXPECT_NEAR(p.is_weight[0], std::exp(0.1), 1e-15);
  EXPECT_EQ(p.is_weight[1], 0.0);
  EXPECT_EQ(p.is_weight[2], p.is_weight[0]);
  EXPECT_EQ(with(d, RolloutIs::geometric, {0.999, 1.001, OutOfRange::mask}).is_weight[0], 0.0);
}

// The bounds of *_k1 are those of 1 / rho, as verl computes k1 = -(l_old - l_sampler).
TEST(Correction, RejectionByK1BoundsTheInverseRatio) {
  Data d;
  d.add({std::log(3.0), std::log(1.0 / 3.0)}, 1);  // rho = 3 and 1/3
  LossConfig c;
  c.rollout_rs = parse_rollout_rs("token_k1", "0.5_4");
  const Prepared p = prepare(d.batch(), c);
  EXPECT_EQ(p.is_weight[0], 0.0) << "1 / rho = 1/3 is below 0.5";
  EXPECT_EQ(p.is_weight[1], 1.0) << "1 / rho = 3 is in [0.5, 4]";
}

// 0.012 a token over 100 tokens: the sum rejects what the geometric mean keeps.
TEST(Correction, GeometricMeanDoesNotDependOnTheLength) {
  Data d;
  d.add(std::vector<double>(100, 0.012), 1);
  LossConfig c;
  c.rollout_rs = parse_rollout_rs("seq_sum_k1", "0.5_2");
  EXPECT_EQ(prepare(d.batch(), c).is_sums.rejected, 100);  // 1 / exp(1.2) = 0.30
  c.rollout_rs = parse_rollout_rs("seq_mean_k1", "0.5_2");
  EXPECT_EQ(prepare(d.batch(), c).is_sums.rejected, 0);  // 1 / exp(0.012)
  c.rollout_rs = parse_rollout_rs("seq_mean_k1", "0.98_1.02");
  EXPECT_EQ(prepare(d.batch(), c).is_sums.rejected, 0);  // 0.98807
  c.rollout_rs = parse_rollout_rs("seq_mean_k1", "0.99_1.01");
  EXPECT_EQ(prepare(d.batch(), c).is_sums.rejected, 100);
}

TEST(Correction, BatchNormalizationDividesByTheMeanWeight) {
  Data d;
  d.add({std::log(0.5), std::log(1.5), std::log(9.0)}, 1);
  d.add({std::log(2.0)}, 1);
  LossConfig c;
  c.loss_agg_mode = LossAggMode::token_sum;
  c.rollout_is = RolloutIs::token;
  c.rollout_is_batch_normalize = true;
  const Prepared p = prepare(d.batch(), c);  // weights 0.5, 1.5, 2, 2: mean 1.5
  EXPECT_DOUBLE_EQ(p.is_sums.weight, 6.0);
  const Result token = run(d, p, 0, 2);
  EXPECT_NEAR(token.dlogp[0], -0.5 / 1.5, 1e-15);
  EXPECT_NEAR(token.dlogp[3], -2.0 / 1.5, 1e-15);
  EXPECT_NEAR(token.loss, -4.0, 1e-14);
  c.rollout_is = RolloutIs::sequence;
  c.rollout_is_threshold = {0.0, 10.0, OutOfRange::truncate};
  const Prepared s = prepare(d.batch(), c);  // 6.75 and 2, one each: mean 4.375
  EXPECT_NEAR(s.is_sums.response_weight, 8.75, 1e-14);
  EXPECT_NEAR(run(d, s, 0, 2).dlogp[3], -2.0 / 4.375, 1e-15);
}

TEST(Correction, NormalizingWeightsThatAreAllZeroIsHarmless) {
  Data d;
  d.add({5.0, 5.0}, 1);
  LossConfig c;
  c.rollout_is = RolloutIs::token;
  c.rollout_is_threshold = parse_is_threshold("0.5_2");
  c.rollout_is_batch_normalize = true;
  const Result r = run(d, c);
  EXPECT_EQ(r.loss, 0.0);
  for (double g : r.dlogp) EXPECT_EQ(g, 0.0);
}

TEST(Correction, LogRatiosAreBoundedAt20) {
  Data d;
  d.add({800.0, -800.0}, 1);
  const Prepared p = with(d, RolloutIs::token, {0.0, 1e12, OutOfRange::truncate});
  EXPECT_EQ(p.is_weight[0], std::exp(20.0));
  EXPECT_EQ(p.is_weight[1], std::exp(-20.0));
  Data long_response;
  long_response.add(std::vector<double>(100, 10.0), 1);
  EXPECT_EQ(with(long_response, RolloutIs::sequence, {0.0, 1e12, OutOfRange::truncate}).is_weight[0],
            std::exp(20.0));
}

TEST(Correction, ThresholdIsSpelledAsInVerl) {
  const IsThreshold tis = parse_is_threshold("2.5");
  EXPECT_EQ(tis.low, 0.0);
  EXPECT_EQ(tis.high, 2.5);
  EXPECT_EQ(tis.outside, OutOfRange::truncate);
  const IsThreshold ice = parse_is_threshold("0.5_5.0");
  EXPECT_EQ(ice.low, 0.5);
  EXPECT_EQ(ice.high, 5.0);
  EXPECT_EQ(ice.outside, OutOfRange::mask);
  for (const char* bad : {"", "x", "2,5", "0.5_", "_5", "1_2_3", "2 "}) {
    expect_error(ErrorCode::invalid_argument, {"rollout_is_threshold '" + std::string(bad) + "'"},
                 [&] { (void)parse_is_threshold(bad); });
  }
}

}  // namespace
}  // namespace minite::rl::test
