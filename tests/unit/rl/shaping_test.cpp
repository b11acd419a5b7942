// Dynamic sampling and the overlong penalty of DAPO.
#include <cmath>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

TEST(Shaping, GroupsWithoutSignalAreLeftOut) {
  const std::vector<double> rewards = {1, 1, 0, 1, 0.1, 0.1, 0, 0, 1, 0};
  EXPECT_EQ(groups_with_signal(2, rewards), (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(groups_with_signal(5, rewards), (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(groups_with_signal(1, rewards).empty());
  EXPECT_TRUE(groups_with_signal(3, std::vector<double>{0.1, 0.1, 0.1}).empty());
  EXPECT_TRUE(groups_with_signal(4, {}).empty());
  expect_error(ErrorCode::invalid_argument, {"group_size = 0"},
               [&] { (void)groups_with_signal(0, rewards); });
  expect_error(ErrorCode::invalid_argument, {"10 rewards", "groups of 3"},
               [&] { (void)groups_with_signal(3, rewards); });
}

// A group that is kept has an advantage, a dropped one has none.
TEST(Shaping, KeptGroupsAreThoseWithAnAdvantage) {
  const std::vector<double> rewards = {1, 1, 0, 1, 0, 0, 0.5, 0.25};
  std::vector<double> advantage(rewards.size());
  group_advantages(AdvEstimator::grpo, 2, rewards, advantage);
  std::vector<std::int64_t> with_advantage;
  for (std::int64_t g = 0; g < 4; ++g) {
    if (advantage[2 * g] != 0.0) with_advantage.push_back(g);
  }
  EXPECT_EQ(groups_with_signal(2, rewards), with_advantage);
}

// The setting of DAPO: 20480 tokens, the last 4096 of them penalised.
TEST(Shaping, OverlongPenaltyIsLinearInTheBuffer) {
  const auto penalty = [](std::int64_t length) { return overlong_penalty(length, 20480, 4096, 1.0); };
  EXPECT_EQ(penalty(0), 0.0);
  EXPECT_EQ(penalty(16384), 0.0);
  EXPECT_FALSE(std::signbit(penalty(16384)));
  EXPECT_EQ(penalty(16384 + 1024), -0.25);
  EXPECT_EQ(penalty(16384 + 1), -1.0 / 4096);
  EXPECT_EQ(penalty(20480), -1.0);
  EXPECT_EQ(penalty(30000), -1.0);
  EXPECT_EQ(overlong_penalty(18, 20, 4, 0.5), -0.25);
  EXPECT_EQ(overlong_penalty(20, 20, 20, 1.0), -1.0);
}

TEST(Shaping, OverlongPenaltyRefusesBadInput) {
  const auto bad = ErrorCode::invalid_argument;
  expect_error(bad, {"overlong_buffer_len = 0", "between 1 and 20"},
               [] { (void)overlong_penalty(1, 20, 0, 1.0); });
  expect_error(bad, {"overlong_buffer_len = 21"}, [] { (void)overlong_penalty(1, 20, 21, 1.0); });
  expect_error(bad, {"-1 tokens"}, [] { (void)overlong_penalty(-1, 20, 4, 1.0); });
  expect_error(bad, {"overlong_penalty_factor = nan"},
               [] { (void)overlong_penalty(1, 20, 4, std::nan("")); });
}

}  // namespace
}  // namespace minite::rl::test
