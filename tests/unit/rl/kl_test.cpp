// KL penalties against a frozen reference: values, clamps, aggregation.
#include <cmath>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

struct Penalty {
  double value, gradient;
};

/// One token with x = l_ref - l, advantage 0 and coefficient 1.
Penalty penalty(KlLossType type, double x) {
  Data d;
  d.add({0.0}, 0.0);
  d.live[0] = 0.0;
  d.ref = {x};
  LossConfig c;
  c.kl_loss_coef = 1.0;
  c.kl_loss_type = type;
  const Result r = run(d, c);
  EXPECT_EQ(r.loss, r.sums.kl_loss);
  return {r.loss, r.dlogp[0]};
}

TEST(Kl, GoldenValues) {
  const double e = std::exp(0.5);
  EXPECT_EQ(penalty(KlLossType::k1, 0.5).value, -0.5);  // may be negative
  EXPECT_EQ(penalty(KlLossType::k1, 0.5).gradient, 1.0);
  EXPECT_EQ(penalty(KlLossType::k2, 0.5).value, 0.125);
  EXPECT_EQ(penalty(KlLossType::k2, 0.5).gradient, -0.5);
  for (KlLossType type : {KlLossType::k3, KlLossType::low_var_kl}) {
    EXPECT_DOUBLE_EQ(penalty(type, 0.5).value, e - 1.5);  // 0.14872
    EXPECT_DOUBLE_EQ(penalty(type, 0.5).gradient, 1.0 - e);
    EXPECT_DOUBLE_EQ(penalty(type, -2.0).value, std::exp(-2.0) + 1.0);
    EXPECT_DOUBLE_EQ(penalty(type, -2.0).gradient, 1.0 - std::exp(-2.0));
  }
}

TEST(Kl, EqualPoliciesCostNothing) {
  for (const Option& option : options<KlLossType>()) {
    EXPECT_EQ(penalty(parse<KlLossType>(option.name), 0.0).value, 0.0) << option.name;
  }
  EXPECT_EQ(penalty(KlLossType::k3, 0.0).gradient, 0.0);
  EXPECT_EQ(penalty(KlLossType::k2, 0.0).gradient, 0.0);
}

TEST(Kl, ClampsHaveNoGradientOutside) {
  EXPECT_DOUBLE_EQ(penalty(KlLossType::k3, 5.0).value, std::exp(5.0) - 6.0);
  EXPECT_EQ(penalty(KlLossType::low_var_kl, 5.0).value, 10.0);
  EXPECT_EQ(penalty(KlLossType::low_var_kl, 5.0).gradient, 0.0);
  EXPECT_DOUBLE_EQ(penalty(KlLossType::low_var_kl, -9.0).value, std::exp(-9.0) + 8.0);
  EXPECT_DOUBLE_EQ(penalty(KlLossType::k3, 800.0).value, std::exp(20.0) - 21.0);
  EXPECT_EQ(penalty(KlLossType::k3, 800.0).gradient, 0.0);
  EXPECT_EQ(penalty(KlLossType::low_var_kl, -800.0).gradient, 0.0);
}

// Aggregated like the policy loss; correction and gate weights do not touch it.
TEST(Kl, AggregatedWithoutWeights) {
  Data d;
  d.add({1.0, 1.0}, 0.0, {1, 0});
  d.add({0.0, 0.0, 0.0}, 0.0);
  d.ref = {1.0, 99.0, -1.0, -1.0, -1.0};  // k2 of the valid tokens: 2, 0.5 x 3 after live = -1, 0
  d.live = {-1.0, 0.0, 0.0, 0.0, 0.0};
  LossConfig c;
  c.kl_loss_type = KlLossType::k2;
  c.kl_loss_coef = 0.1;
  c.rollout_is = RolloutIs::token;
  const auto loss = [&](LossAggMode mode) {
    c.loss_agg_mode = mode;
    const Result r = run(d, c);
    EXPECT_DOUBLE_EQ(r.loss, 0.1 * r.sums.kl_loss);
    EXPECT_EQ(r.sums.kl_tokens, 4);
    EXPECT_EQ(r.dlogp[1], 0.0);
    return r.sums.kl_loss;
  };
  EXPECT_DOUBLE_EQ(loss(LossAggMode::token_mean), 3.5 / 4);
  EXPECT_DOUBLE_EQ(loss(LossAggMode::token_sum), 3.5);
  EXPECT_DOUBLE_EQ(loss(LossAggMode::seq_mean_token_sum), 3.5 / 2);
  EXPECT_DOUBLE_EQ(loss(LossAggMode::seq_mean_token_mean), (2.0 + 0.5) / 2);
}

TEST(Kl, OnlyMeasuredWithoutItsCoefficient) {
  Data d = random_data({20, 30}, 51);
  const Result plain = run(d, LossConfig{});
  EXPECT_EQ(plain.sums.kl_tokens, 0);
  add_reference(d, 51);
  const Result measured = run(d, LossConfig{});
  EXPECT_EQ(measured.loss, plain.loss);
  EXPECT_TRUE(same_bits(measured.dlogp, plain.dlogp));
  EXPECT_GT(measured.sums.kl_loss, 0.0);
}

TEST(Kl, CoefficientNeedsTheReference) {
  Data d;
  d.add({0.0}, 1.0);
  LossConfig c;
  c.kl_loss_coef = 0.01;
  expect_error(ErrorCode::invalid_argument, {"kl_loss_coef = 0.01", "logp_ref"},
               [&] { (void)prepare(d.batch(), c); });
}

}  // namespace
}  // namespace minite::rl::test
