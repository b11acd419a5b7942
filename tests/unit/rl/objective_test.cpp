// Values of the clipped loss and of the five aggregations.
#include <cmath>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

struct OneToken {
  double loss, gradient;
  MetricSums sums;
};

OneToken one(double log_ratio, double advantage, LossConfig c = {}) {
  Data d;
  d.add({0.0}, advantage);
  d.live[0] = d.old[0] + log_ratio;
  const Result r = run(d, c);
  return {r.loss, r.dlogp[0], r.sums};
}

TEST(Objective, ClipSides) {
  const double up = std::log(1.5);
  const double down = std::log(0.5);
  EXPECT_DOUBLE_EQ(one(up, 2.0).loss, -1.28 * 2.0);
  EXPECT_EQ(one(up, 2.0).gradient, 0.0);
  EXPECT_EQ(one(up, 2.0).sums.clipped, 1);
  EXPECT_DOUBLE_EQ(one(up, -2.0).loss, 1.5 * 2.0);
  EXPECT_DOUBLE_EQ(one(up, -2.0).gradient, 1.5 * 2.0);
  EXPECT_DOUBLE_EQ(one(down, -2.0).loss, 0.8 * 2.0);
  EXPECT_EQ(one(down, -2.0).gradient, 0.0);
  EXPECT_DOUBLE_EQ(one(down, 2.0).loss, -0.5 * 2.0);
  EXPECT_DOUBLE_EQ(one(down, 2.0).gradient, -0.5 * 2.0);
  EXPECT_EQ(one(0.0, 0.0).loss, 0.0);
  EXPECT_EQ(one(up, 0.0).sums.clipped, 0);
}

TEST(Objective, GradientFlowsOnTheBound) {
  LossConfig c;
  c.clip_ratio_low = c.clip_ratio_high = 0.0;  // r = 1 lies on both bounds
  EXPECT_EQ(one(0.0, 1.0, c).gradient, -1.0);
  EXPECT_EQ(one(0.0, -1.0, c).gradient, 1.0);
}

TEST(Objective, DualClipHoldsNegativeAdvantages) {
  LossConfig c;
  c.clip_ratio_c = 3.0;
  const OneToken held = one(std::log(5.0), -2.0, c);
  EXPECT_EQ(held.loss, 6.0);
  EXPECT_EQ(held.gradient, 0.0);
  EXPECT_EQ(held.sums.clipped_lower, 1);
  EXPECT_DOUBLE_EQ(one(std::log(2.0), -2.0, c).loss, 4.0);
  EXPECT_DOUBLE_EQ(one(std::log(0.5), -2.0, c).loss, 1.6);
  EXPECT_DOUBLE_EQ(one(std::log(5.0), 2.0, c).loss, -2.56);
  EXPECT_DOUBLE_EQ(one(std::log(5.0), -2.0).loss, 10.0);  // off by default
}

Result sequence(const std::vector<double>& log_ratios, double advantage, const LossConfig& c,
                const std::vector<std::uint8_t>& mask = {}) {
  Data d;
  d.add(std::vector<double>(log_ratios.size(), 0.0), advantage, mask);
  for (std::size_t t = 0; t < log_ratios.size(); ++t) d.live[t] = d.old[t] + log_ratios[t];
  return run(d, c);
}

LossConfig mode(LossMode m, double low, double high) {
  LossConfig c;
  c.loss_mode = m;
  c.clip_ratio_low = low;
  c.clip_ratio_high = high;
  return c;
}

// The ratio of a response is the geometric mean of its tokens' ratios, masked ones left out.
TEST(Objective, GspoClipsTheGeometricMean) {
  const LossConfig wide = mode(LossMode::gspo, 0.2, 0.28);
  const Result r = sequence({0.3, 50.0, -0.1}, 2.0, wide, {1, 0, 1});
  EXPECT_DOUBLE_EQ(r.loss, -2.0 * std::exp(0.1));
  EXPECT_DOUBLE_EQ(r.dlogp[0], -std::exp(0.1));
  EXPECT_EQ(r.dlogp[1], 0.0);
  EXPECT_DOUBLE_EQ(r.dlogp[2], -std::exp(0.1));
  EXPECT_DOUBLE_EQ(r.sums.ratio, 2.0 * std::exp(0.1));
  const ObjectivePreset& preset = objective_preset("gspo");
  const LossConfig narrow = mode(preset.loss_mode, preset.clip_ratio_low, preset.clip_ratio_high);
  EXPECT_DOUBLE_EQ(sequence({0.001, 0.001}, 1.0, narrow).loss, -1.0004);
  EXPECT_EQ(sequence({0.001, 0.001}, 1.0, narrow).dlogp[0], 0.0);
  EXPECT_EQ(sequence({0.001, 0.001}, 1.0, narrow).sums.clipped, 2);
  EXPECT_DOUBLE_EQ(sequence({-0.001, -0.001}, -1.0, narrow).loss, 0.9997);
  EXPECT_DOUBLE_EQ(sequence({-0.001, -0.001}, 1.0, narrow).loss, -std::exp(-0.001));
  // One token far off and one back: the mean is 0, nothing is clipped.
  EXPECT_EQ(sequence({1.0, -1.0}, 1.0, narrow).sums.clipped, 0);
}

// Without the clamp before exp, a mean log-ratio of 100 makes inf * 0 = NaN in the whole batch.
TEST(Objective, GspoBoundsTheExponent) {
  const LossConfig c = mode(LossMode::gspo, 3e-4, 4e-4);
  for (double mean : {100.0, 800.0, -800.0, 1e300}) {
    for (double a : {1.0, -1.0}) {
      const Result r = sequence({mean, mean, mean}, a, c);
      EXPECT_TRUE(std::isfinite(r.loss)) << mean;
      for (double g : r.dlogp) EXPECT_EQ(g, 0.0) << mean;
    }
  }
  EXPECT_DOUBLE_EQ(sequence({100.0, 100.0}, -1.0, c).loss, std::exp(10.0));
  EXPECT_DOUBLE_EQ(sequence({9.0, 9.0}, -1.0, c).dlogp[0], std::exp(9.0) / 2);
}

TEST(Objective, CispoKeepsTheGradientOfClippedTokens) {
  const LossConfig both = mode(LossMode::cispo, 0.2, 0.28);
  const OneToken up = one(std::log(1.5), 2.0, both);
  EXPECT_DOUBLE_EQ(up.gradient, -1.28 * 2.0);
  EXPECT_DOUBLE_EQ(up.loss, -1.28 * 2.0 * (-1.0 + std::log(1.5)));
  EXPECT_EQ(up.sums.clipped, 1);
  EXPECT_DOUBLE_EQ(one(std::log(1.5), -2.0, both).gradient, 1.28 * 2.0);  // whatever the sign of A
  EXPECT_DOUBLE_EQ(one(std::log(0.5), 2.0, both).gradient, -0.8 * 2.0);
  EXPECT_DOUBLE_EQ(one(std::log(1.1), 2.0, both).gradient, -1.1 * 2.0);
  EXPECT_EQ(one(std::log(1.1), 2.0, both).sums.clipped, 0);
  for (double low : {1.0, 5.0}) {
    const LossConfig open = mode(LossMode::cispo, low, 0.28);
    EXPECT_DOUBLE_EQ(one(std::log(0.01), 2.0, open).gradient, -0.02);
    EXPECT_EQ(one(std::log(0.01), 2.0, open).sums.clipped, 0);
  }
}

// log r is held on one side only: above for A > 0, below for A < 0.
TEST(Objective, GeoMeanHoldsLogRatiosThenAverages) {
  const LossConfig c = mode(LossMode::geo_mean, 0.3, 0.4);
  const Result up = sequence({1.0, 0.2, -1.0}, 2.0, c);
  const double mean = (0.4 + 0.2 - 1.0) / 3;
  EXPECT_DOUBLE_EQ(up.loss, -2.0 * std::exp(mean));
  EXPECT_EQ(up.dlogp[0], 0.0);
  EXPECT_DOUBLE_EQ(up.dlogp[1], -2.0 * std::exp(mean) / 3);
  EXPECT_DOUBLE_EQ(up.dlogp[2], -2.0 * std::exp(mean) / 3);
  EXPECT_EQ(up.sums.clipped, 1);
  const Result down = sequence({1.0, 0.2, -1.0}, -2.0, c);
  EXPECT_DOUBLE_EQ(down.loss, 2.0 * std::exp((1.0 + 0.2 - 0.3) / 3));
  EXPECT_EQ(down.dlogp[2], 0.0);
  EXPECT_EQ(sequence({50.0, 0.3}, 1.0, c, {0, 1}).loss, -std::exp(0.3)) << "masked tokens are left out";
  for (double mean_log_ratio : {100.0, 1e300}) {
    const Result r = sequence({mean_log_ratio, mean_log_ratio}, -1.0, c);
    EXPECT_DOUBLE_EQ(r.loss, std::exp(10.0));
    EXPECT_EQ(r.dlogp[0], 0.0);
  }
}

TEST(Objective, SapoIsASigmoidInThePlaceOfTheClip) {
  LossConfig c = mode(LossMode::sapo, 0.2, 0.28);
  EXPECT_DOUBLE_EQ(one(0.0, 2.0, c).loss, -2.0 * 0.5 * 4.0);
  EXPECT_DOUBLE_EQ(one(0.0, 2.0, c).gradient, -2.0) << "on policy: that of the plain ratio";
  EXPECT_DOUBLE_EQ(one(0.0, -2.0, c).loss, 2.0 * 0.5 * 4.0 / 1.05);
  EXPECT_DOUBLE_EQ(one(0.0, -2.0, c).gradient, 2.0);
  const double gate = 1.0 / (1.0 + std::exp(-1.0));
  EXPECT_NEAR(one(std::log(2.0), 1.0, c).loss, -4.0 * gate, 1e-15);
  EXPECT_NEAR(one(std::log(2.0), 1.0, c).gradient, -4.0 * gate * (1 - gate) * 2.0, 1e-15);
  c.tau_neg = 2.0;
  EXPECT_NEAR(one(std::log(2.0), -1.0, c).loss, 2.0 / (1.0 + std::exp(-2.0)), 1e-15);
  EXPECT_EQ(one(800.0, -1.0, c).gradient, 0.0);
  EXPECT_TRUE(std::isfinite(one(-1e300, -1.0, c).loss));
}

TEST(Objective, ExtremeLogRatiosStayFinite) {
  for (double x : {800.0, -800.0, 1e300, -1e300}) {
    for (double a : {1.0, -1.0}) {
      const OneToken r = one(x, a);
      EXPECT_TRUE(std::isfinite(r.loss)) << x;
      EXPECT_EQ(r.gradient, 0.0) << x;
    }
  }
  EXPECT_EQ(one(800.0, -1.0).loss, std::exp(20.0));
}

TEST(Objective, OverflowIsAnErrorNotANumber) {
  expect_error(ErrorCode::non_finite, {"loss of response 0", "too large"}, [] { (void)one(5.0, -1e307); });
}

// Two valid responses of 1 and 3 valid tokens and a masked one; every token has loss -A.
TEST(Objective, AggregationModes) {
  Data d;
  d.add({0.0, 0.0}, 2.0, {1, 0});
  d.add({0.0, 0.0, 0.0}, 1.0, {0, 0, 0});
  d.add({0.0, 0.0, 0.0}, 4.0);
  LossConfig c;
  const auto loss = [&](LossAggMode mode) {
    c.loss_agg_mode = mode;
    return -run(d, c).loss;
  };
  EXPECT_DOUBLE_EQ(loss(LossAggMode::token_mean), 14.0 / 4.0);
  EXPECT_DOUBLE_EQ(loss(LossAggMode::token_sum), 14.0);
  EXPECT_DOUBLE_EQ(loss(LossAggMode::seq_mean_token_sum), 7.0);
  EXPECT_DOUBLE_EQ(loss(LossAggMode::seq_mean_token_mean), (2.0 + 4.0) / 2.0);
  c.loss_scale_factor = 10.0;
  EXPECT_DOUBLE_EQ(loss(LossAggMode::seq_mean_token_sum_norm), 0.7);
}

TEST(Objective, EntropyIsSubtractedAndHookedOnlyWhenWanted) {
  Data d;
  d.add({0.0, 0.0}, 2.0, {1, 0});
  d.add({0.0, 0.0}, 4.0);
  LossConfig c;
  c.loss_agg_mode = LossAggMode::seq_mean_token_mean;
  const Result off = run(d, c);
  for (double g : off.dentropy) EXPECT_EQ(g, 0.0);
  EXPECT_EQ(off.sums.entropy_loss, 1.0);
  c.entropy_coef = 0.1;
  const Result on = run(d, c);
  EXPECT_DOUBLE_EQ(on.loss, off.loss - 0.1);
  EXPECT_DOUBLE_EQ(on.dentropy[0], -0.05);
  EXPECT_EQ(on.dentropy[1], 0.0);
  EXPECT_DOUBLE_EQ(on.dentropy[2], -0.025);
  EXPECT_TRUE(same_bits(on.dlogp, off.dlogp));
}

TEST(Objective, EntropyMayBeAbsentOnlyWithoutItsCoefficient) {
  Data d;
  d.add({0.0, 0.0}, 1.0);
  LossConfig c;
  std::vector<double> dlogp(2);
  MetricSums sums;
  const auto call = [&] {
    (void)evaluate(d.batch(), prepare(d.batch(), c), 0, 1, {d.live, {}}, {dlogp, {}}, sums);
  };
  EXPECT_NO_THROW(call());
  EXPECT_EQ(sums.entropy_tokens, 0);
  c.entropy_coef = 0.1;
  expect_error(ErrorCode::invalid_argument, {"live entropy has 0 elements for 2 tokens"}, call);
}

TEST(Objective, RefusesWrongSpansAndForeignBatches) {
  Data d;
  d.add({0.0, 0.0}, 1.0);
  d.add({0.0}, 1.0);
  const Prepared p = prepare(d.batch(), {});
  std::vector<double> dlogp(2);
  MetricSums sums;
  const auto call = [&](const Data& data, std::int64_t begin, std::int64_t end) {
    (void)evaluate(data.batch(), p, begin, end, {std::span(data.live).first(2), {}}, {dlogp, {}}, sums);
  };
  EXPECT_NO_THROW(call(d, 0, 1));
  expect_error(ErrorCode::invalid_argument, {"live logp has 2 elements for 3 tokens"},
               [&] { call(d, 0, 2); });
  expect_error(ErrorCode::invalid_argument, {"responses [1, 3) of a batch of 2"}, [&] { call(d, 1, 3); });
  expect_error(ErrorCode::invalid_argument, {"responses [1, 0)"}, [&] { call(d, 1, 0); });
  expect_error(ErrorCode::invalid_argument, {"responses [-1, 0)"}, [&] { call(d, -1, 0); });
  Data other;
  other.add({0.0}, 1.0);
  other.add({0.0, 0.0}, 1.0);
  expect_error(ErrorCode::invalid_argument, {"not the one that was prepared"}, [&] { call(other, 0, 2); });
}

TEST(Objective, NonFiniteLiveValuesAreNamed) {
  Data d;
  d.add({0.0, 0.0}, 1.0);
  d.add({0.0, 0.0}, 1.0);
  d.live[3] = -std::numeric_limits<double>::infinity();
  expect_error(ErrorCode::non_finite, {"live logp = -inf", "response 1, token 1"},
               [&] { (void)run(d, LossConfig{}); });
  d.live[3] = -1.0;
  d.entropy[2] = std::nan("");
  expect_error(ErrorCode::non_finite, {"live entropy = nan", "response 1, token 0"},
               [&] { (void)run(d, LossConfig{}); });
}

}  // namespace
}  // namespace minite::rl::test
