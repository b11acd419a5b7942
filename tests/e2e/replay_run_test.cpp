// Router replay in whole runs: inert with matched recipes, and measured where recipes or weights differ.
#include "support/refused.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::Child;
using test_support::json_lines;
using test_support::kTinyRl;
using test_support::kTinySft;
using test_support::same_files;
using test_support::slurp;
using test_support::TinyRuns;

using Arguments = std::vector<std::string>;

Arguments experts(const Arguments& more) {
  Arguments all = test_support::tiny_expert_settings();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ReplayRun, IsInertWithMatchedRecipes) {
  const TinyRuns runs;
  const Arguments matched = {"--set", "contrast.steps=0"};
  (void)runs.finish(runs.start("off", experts(matched)));
  for (const std::string mode : {"R2", "R3"}) {
    (void)runs.finish(runs.start(mode, experts({"--set", "contrast.steps=0", "--router-replay", mode})));
    EXPECT_TRUE(same_files(runs / "off/checkpoints", runs / (mode + "/checkpoints"))) << mode;
    auto want = json_lines(runs / "off/metrics.jsonl"), got = json_lines(runs / (mode + "/metrics.jsonl"));
    for (json& line : got) {
      if (line["stage"] != "rl") continue;
      EXPECT_EQ(line["gap_max"], 0.0);
      EXPECT_EQ(line["router_mismatch"], 0.0);
      EXPECT_EQ(line["router_order_mismatch"], 0.0);
      EXPECT_EQ(line["router_weight_abs_diff"], 0.0);
      EXPECT_EQ(line["router_drift"], 0.0) << "one update: every pass has the weights that sampled";
      line.erase("router_drift");
    }
    EXPECT_EQ(got, want) << mode;
    EXPECT_EQ(json::parse(slurp(runs / (mode + "/summary.json")))["contract"]["router_replay"], mode);
  }
}

TEST(ReplayRun, MismatchIsMeasuredWhateverTheMode) {
  const TinyRuns runs;
  for (const std::string mode : {"off", "R3"}) {
    (void)runs.finish(runs.start(mode, experts({"--router-replay", mode})));
    double mismatch = 0, weights = 0;
    for (const json& line : json_lines(runs / (mode + "/metrics.jsonl"))) {
      if (line["stage"] != "contrast") continue;
      mismatch += line["router_mismatch"].get<double>();
      weights += line["router_weight_abs_diff"].get<double>();
    }
    EXPECT_GT(mismatch, 0.0) << mode << ": a bf16 learner and a 4-bit sampler";
    EXPECT_GT(weights, 0.0) << mode;
  }
  EXPECT_NE(slurp(runs / "off/metrics.jsonl"), slurp(runs / "R3/metrics.jsonl"));
}

// With several updates of a rollout the weights move between recording and replay.
TEST(ReplayRun, DriftWithinARolloutIsFrozenAndMeasured) {
  const TinyRuns runs;
  const Arguments several = {"--set", "rl.ppo_epochs=4", "--set", "rl.lr=1e-2", "--set", "contrast.steps=0"};
  (void)runs.finish(runs.start("off", experts(several)));
  Arguments r2 = several;
  r2.insert(r2.end(), {"--router-replay", "R2"});
  (void)runs.finish(runs.start("R2", experts(r2)));
  double drift = 0;
  for (const json& line : json_lines(runs / "R2/metrics.jsonl")) {
    if (line["stage"] != "rl") continue;
    EXPECT_EQ(line["router_mismatch"], 0.0) << "before the first update both sides agree";
    drift += line["router_drift"].get<double>();
  }
  EXPECT_GT(drift, 0.0);
  EXPECT_NE(slurp(runs / "off/metrics.jsonl"), slurp(runs / "R2/metrics.jsonl"));
}

TEST(ReplayRun, ResumesToTheSameBytes) {
  const TinyRuns runs;
  const Arguments r3 = {"--router-replay", "R3", "--set", "rl.ppo_epochs=2"};
  (void)runs.finish(runs.start("whole", experts(r3)));
  Child child(runs.start("killed", experts(r3)));
  (void)child.kill_when([&] { return runs.lines("killed") >= kTinySft + 3; });
  (void)runs.finish(runs.resume("killed"));
  EXPECT_EQ(slurp(runs / "whole/metrics.jsonl"), slurp(runs / "killed/metrics.jsonl"));
  EXPECT_TRUE(same_files(runs / "whole/checkpoints", runs / "killed/checkpoints"));
}

TEST(ReplayRun, BadInputIsRefused) {
  const TinyRuns runs;
  test_support::expect_refused(runs, runs.start("run", {"--router-replay", "R3"}),
                               {"rl.router_replay=R3", "model.num_experts=0"});
  test_support::expect_refused(runs, runs.start("run", experts({"--router-replay", "r3"})),
                               {"router_replay 'r3'", "off, R2, R3", "did you mean 'R3'?"});
}

}  // namespace
}  // namespace minite
