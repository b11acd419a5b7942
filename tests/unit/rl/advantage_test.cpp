#include <cmath>
#include <limits>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

TEST(Advantage, GrpoUsesTheUnbiasedStandardDeviation) {
  const std::vector<double> rewards = {1, 0, 0, 1, 3, 1, 1, 1};
  std::vector<double> out(rewards.size());
  group_advantages(AdvEstimator::grpo, 4, rewards, out);
  const double std0 = std::sqrt(4 * 0.25 / 3.0);
  EXPECT_DOUBLE_EQ(out[0], 0.5 / (std0 + 1e-6));
  EXPECT_DOUBLE_EQ(out[1], -0.5 / (std0 + 1e-6));
  const double std1 = std::sqrt((2.25 + 3 * 0.25) / 3.0);
  EXPECT_DOUBLE_EQ(out[4], 1.5 / (std1 + 1e-6));
  EXPECT_DOUBLE_EQ(out[5], -0.5 / (std1 + 1e-6));
}

TEST(Advantage, DrGrpoOnlySubtractsTheMean) {
  std::vector<double> values = {1, 0, 0, 1};
  group_advantages(AdvEstimator::dr_grpo, 4, values, values);  // in place
  EXPECT_EQ(values, (std::vector<double>{0.5, -0.5, -0.5, 0.5}));
}

TEST(Advantage, EqualRewardsGiveExactZero) {
  // The rounded mean of three 0.1 is not 0.1.
  for (AdvEstimator e : {AdvEstimator::grpo, AdvEstimator::dr_grpo}) {
    std::vector<double> out(3, 7.0);
    group_advantages(e, 3, std::vector<double>{0.1, 0.1, 0.1}, out);
    EXPECT_EQ(out, (std::vector<double>{0, 0, 0}));
  }
}

TEST(Advantage, RefusesBadInput) {
  std::vector<double> out(4);
  const auto call = [&](std::int64_t g, std::vector<double> r) {
    group_advantages(AdvEstimator::grpo, g, r, out);
  };
  expect_error(ErrorCode::invalid_argument, {"group_size = 1"}, [&] { call(1, {1, 2, 3, 4}); });
  expect_error(ErrorCode::invalid_argument, {"4 rewards", "groups of 3"}, [&] { call(3, {1, 2, 3, 4}); });
  expect_error(ErrorCode::invalid_argument, {"4 outputs for 2"}, [&] { call(2, {1, 2}); });
  expect_error(ErrorCode::non_finite, {"reward 2 is nan"}, [&] { call(2, {1, 2, std::nan(""), 4}); });
  expect_error(ErrorCode::non_finite, {"standard deviation", "inf"}, [&] {
    call(2, {1, 2, 1.7e308, -1.7e308});
  });
  expect_error(ErrorCode::non_finite, {"advantage 2", "too large"}, [&] {
    group_advantages(AdvEstimator::dr_grpo, 2, std::vector<double>{1, 2, 1.7e308, 1.6e308}, out);
  });
}

TEST(Advantage, BroadcastCopiesToEveryToken) {
  const std::vector<std::int64_t> offsets = {0, 2, 2, 3};
  std::vector<double> out(3);
  broadcast_advantage(offsets, std::vector<double>{1, 2, 3}, out);
  EXPECT_EQ(out, (std::vector<double>{1, 1, 3}));
  expect_error(ErrorCode::invalid_argument, {"2 advantages for 3 responses"}, [&] {
    broadcast_advantage(offsets, std::vector<double>{1, 2}, out);
  });
  expect_error(ErrorCode::invalid_argument, {"last offset is 3", "2 tokens"}, [&] {
    broadcast_advantage(offsets, std::vector<double>{1, 2, 3}, std::span(out).first(2));
  });
}

}  // namespace
}  // namespace minite::rl::test
