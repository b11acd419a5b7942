// Alarms: which numbers of a step make a warning, and what it says.
#include "rl/alarms.h"

#include "rl_support.h"

namespace minite::rl::test {
namespace {

learn::Metrics gap(double mean, double response_max = 0.0, double response_q50 = 0.0) {
  return {{"train_rollout_logprob_abs_diff", mean},
          {"gap_response_max", response_max},
          {"gap_response_q50", response_q50}};
}

void expect_one(const std::vector<std::string>& warnings, const std::vector<std::string>& parts) {
  ASSERT_EQ(warnings.size(), 1U);
  for (const std::string& part : parts)
    EXPECT_NE(warnings[0].find(part), std::string::npos) << part << " not in " << warnings[0];
}

TEST(Alarms, AHealthyRunIsSilent) {
  const RunConfig c;
  Alarms alarms(c, learn::Stage::rl);
  for (int64_t step = 1; step < 20; ++step)
    EXPECT_TRUE(alarms.check(step, gap(step % 2 == 0 ? 0.0 : 0.04, 0.15, 0.001)).empty()) << step;
  EXPECT_TRUE(alarms.check(20, {}).empty()) << "no metric, no alarm";
}

TEST(Alarms, TheFirstGapIsJudgedAlone) {
  const RunConfig c;
  Alarms alarms(c, learn::Stage::rl);
  expect_one(alarms.check(1, gap(0.21)), {"warning: rl step 1", "0.210 nats", "temperature", "weights"});
  EXPECT_TRUE(Alarms(c, learn::Stage::rl).check(1, gap(0.2)).empty());
  EXPECT_TRUE(Alarms(c, learn::Stage::rl).check(2, gap(0.21)).empty()) << "a resumed run has no first step";
}

// The gap of a sampler that missed a refit goes from 0.06 to 3.83.
TEST(Alarms, AJumpAfterAnUpdateIsHeardOnce) {
  const RunConfig c;
  Alarms alarms(c, learn::Stage::rl);
  EXPECT_TRUE(alarms.check(1, gap(0.06)).empty());
  expect_one(alarms.check(2, gap(3.83)), {"rl step 2", "from 0.060 to 3.830", "refresh"});
  EXPECT_TRUE(alarms.check(3, gap(0.06)).empty());
  EXPECT_TRUE(alarms.check(4, gap(3.83)).empty()) << "once a stage";
  Alarms matched(c, learn::Stage::rl);
  EXPECT_TRUE(matched.check(1, gap(0.0)).empty());
  EXPECT_TRUE(matched.check(2, gap(0.04)).empty()) << "from 0 a small step is no jump";
}

// A few responses with a catastrophic gap hide in a mean.
TEST(Alarms, OutliersAreHeardThroughASmallMean) {
  const RunConfig c;
  Alarms alarms(c, learn::Stage::rl);
  expect_one(alarms.check(1, gap(0.02, 1.5, 0.01)), {"1.500 nats", "median response 0.01", "mean 0.020"});
  EXPECT_TRUE(Alarms(c, learn::Stage::rl).check(1, gap(0.02, 0.5, 0.0)).empty());
  EXPECT_TRUE(Alarms(c, learn::Stage::rl).check(1, gap(0.15, 1.0, 0.02)).empty()) << "50 times exactly";
}

TEST(Alarms, MasksThatTakeMostTokensAreNamedWithTheirThreshold) {
  RunConfig c;
  c.rl.rollout_is = "sequence";
  c.rl.rollout_is_threshold = "0.5_2";
  expect_one(Alarms(c, learn::Stage::contrast).check(3, {{"tis_clipfrac", 0.51}}),
             {"contrast step 3", "rollout_is=sequence", "0.5_2", "51 %", "geometric"});
  c.rl.rollout_is_threshold = "2";
  EXPECT_TRUE(Alarms(c, learn::Stage::rl).check(1, {{"tis_clipfrac", 0.9}}).empty())
      << "truncation keeps tokens";
  c.rl.rollout_rs = "seq_sum_k1";
  c.rl.rollout_rs_threshold = "0.9_1.1";
  expect_one(Alarms(c, learn::Stage::rl).check(1, {{"rollout_rs_masked_fraction", 0.6}}),
             {"rollout_rs=seq_sum_k1", "0.9_1.1", "60 %"});
}

TEST(Alarms, AContrastHasItsGapOnPurpose) {
  const RunConfig c;
  Alarms alarms(c, learn::Stage::contrast);
  EXPECT_TRUE(alarms.check(1, gap(0.5, 9.0, 0.01)).empty());
  EXPECT_TRUE(alarms.check(2, gap(5.0, 9.0, 0.01)).empty());
}

}  // namespace
}  // namespace minite::rl::test
