// Off-policy sequence masking and the bypass of l_old.
#include <cmath>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

/// Three responses with advantages -1, -1, 1 whose live log-probs fell by 0.3, 0.1 and 0.3 a token.
Data fallen() {
  Data d;
  for (const auto& [a, fall] : {std::pair{-1.0, 0.3}, {-1.0, 0.1}, {1.0, 0.3}}) {
    d.add({0.0, 0.0}, a);
    for (std::size_t t = d.live.size() - 2; t < d.live.size(); ++t) d.live[t] -= fall;
  }
  return d;
}

LossConfig masking(double delta) {
  LossConfig c;
  c.loss_agg_mode = LossAggMode::token_mean;
  c.clip_ratio_low = 0.9;
  c.opsm_delta = delta;
  return c;
}

TEST(OffPolicy, MaskDropsNegativeResponsesThatMovedAway) {
  const Data d = fallen();
  const Result off = run(d, [] {
    auto c = masking(0.0);
    return c.opsm_delta.reset(), c;
  }());
  const Result on = run(d, masking(0.2));
  EXPECT_EQ(on.sums.opsm_masked, 2);
  for (std::size_t t = 0; t < 6; ++t)
    EXPECT_EQ(on.dlogp[t], t < 2 ? 0.0 : off.dlogp[t]) << "the same denominator";
  EXPECT_NEAR(on.loss, (2 * std::exp(-0.1) - 2 * std::exp(-0.3)) / 6, 1e-15);
  EXPECT_EQ(run(d, masking(0.05)).sums.opsm_masked, 4);
  EXPECT_EQ(run(d, masking(0.4)).sums.opsm_masked, 0) << "strictly above the threshold";
}

TEST(OffPolicy, MaskIsInertBeforeTheFirstUpdate) {
  Data d = random_data({30, 40}, 51);
  d.live = d.old;
  EXPECT_EQ(run(d, masking(0.0)).sums.opsm_masked, 0) << "a mean of 0 is not above 0";
}

TEST(OffPolicy, MaskedPositionsDoNotMoveTheMean) {
  Data d;
  d.add({0.0, 0.0, 0.0}, -1.0, {1, 0, 1});
  d.live[1] = -1e30;
  EXPECT_EQ(run(d, masking(0.1)).sums.opsm_masked, 0);
}

TEST(OffPolicy, BypassTakesTheRatioToTheSampler) {
  Data d;
  d.add({0.5, -0.5}, 1.0);  // l_old = l_sampler + 0.5 and - 0.5
  LossConfig c;
  c.clip_ratio_high = 10.0;
  c.bypass_mode = true;
  const Result r = run(d, c);
  EXPECT_NEAR(r.loss, -(std::exp(0.5) + std::exp(-0.5)) / 2, 1e-15) << "r = exp(l - l_sampler)";
  EXPECT_NEAR(r.sums.ppo_kl, 0.0, 1e-15);
  EXPECT_NEAR(r.sums.ratio, std::exp(0.5) + std::exp(-0.5), 1e-14);
  // The same number as a token correction without bypass, before any clip: counted once, not twice.
  LossConfig corrected;
  corrected.clip_ratio_high = 10.0;
  corrected.rollout_is = RolloutIs::token;
  corrected.rollout_is_threshold.high = 10.0;
  EXPECT_NEAR(run(d, corrected).loss, r.loss, 1e-15);
  EXPECT_EQ(gap_stats(d.batch()).abs_mean, 0.5) << "the gap is still measured against l_old";
}

TEST(OffPolicy, BypassMovesTheMaskToo) {
  Data d;
  d.add({-0.3, -0.3}, -1.0);  // the learner finds the tokens less likely than the sampler did
  LossConfig c = masking(0.2);
  EXPECT_EQ(run(d, c).sums.opsm_masked, 0) << "live = l_old";
  c.bypass_mode = true;
  EXPECT_EQ(run(d, c).sums.opsm_masked, 2) << "as DeepSeek-V3.2: from the sampler's log-probs";
}

TEST(OffPolicy, BypassRefusesASecondCorrection) {
  for (const RolloutIs level : {RolloutIs::token, RolloutIs::sequence, RolloutIs::geometric}) {
    LossConfig c;
    c.bypass_mode = true;
    c.rollout_is = level;
    expect_error(ErrorCode::invalid_argument,
                 {"bypass_mode=true", "rollout_is=" + std::string(name_of(level)), "twice"},
                 [&] { validate(c); });
    c.bypass_mode = false;
    EXPECT_NO_THROW(validate(c));
  }
  LossConfig rejecting;
  rejecting.bypass_mode = true;
  rejecting.rollout_rs = parse_rollout_rs("seq_mean_k1", "0.9_1.1");
  EXPECT_NO_THROW(validate(rejecting)) << "rejection is orthogonal";
}

}  // namespace
}  // namespace minite::rl::test
