// Runs whose sampler lags behind the learner: the gap is above 0 exactly where the weights differ,
// corrections see it, and a resumed run has the versions that it needs.
#include "support/refused.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::Child;
using test_support::json_lines;
using test_support::kTinySft;
using test_support::same_files;
using test_support::slurp;
using test_support::TinyRuns;

using Arguments = std::vector<std::string>;

std::vector<json> stage_lines(const TinyRuns& runs, const std::string& run, const char* stage) {
  std::vector<json> lines;
  for (const json& line : json_lines(runs / (run + "/metrics.jsonl"))) {
    if (line["stage"] == stage) lines.push_back(line);
  }
  return lines;
}

Arguments lag(const std::string& steps, const Arguments& more = {}) {
  Arguments all = {"--set", "rl.rollout_staleness=" + steps};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(StaleRun, TheGapIsZeroExactlyWhereTheVersionsAgree) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("fresh"));
  (void)runs.finish(runs.start("zero", lag("0")));
  EXPECT_EQ(slurp(runs / "fresh/metrics.jsonl"), slurp(runs / "zero/metrics.jsonl"));
  EXPECT_TRUE(same_files(runs / "fresh/checkpoints", runs / "zero/checkpoints"));
  (void)runs.finish(runs.start("stale", lag("2")));
  const auto fresh = stage_lines(runs, "fresh", "rl"), stale = stage_lines(runs, "stale", "rl");
  for (size_t i = 0; i < stale.size(); ++i) {
    EXPECT_EQ(fresh[i]["rollout_weight_version"], i);
    EXPECT_EQ(fresh[i]["gap_max"], 0.0);
    EXPECT_EQ(stale[i]["rollout_weight_version"], i < 2 ? 0 : i - 2);
    if (i == 0) {
      EXPECT_EQ(stale[i]["gap_max"], 0.0) << "no earlier version: both sides have the first weights";
    } else {
      EXPECT_GT(stale[i]["gap_max"], 0.0) << i;
      EXPECT_NE(stale[i]["tis"], 1.0) << "the correction sees the lag";
      EXPECT_EQ(stale[i]["ppo_kl"], 0.0) << "l_old is that of the current weights";
    }
  }
  EXPECT_EQ(json::parse(slurp(runs / "stale/summary.json"))["contract"]["rollout_staleness"], 2);
}

// Weights that do not move have no earlier version: the lag alone makes no gap.
TEST(StaleRun, WithoutUpdatesThereIsNoGap) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", lag("1", {"--set", "rl.lr=0", "--set", "contrast.steps=0"})));
  for (const json& line : stage_lines(runs, "run", "rl")) EXPECT_EQ(line["gap_max"], 0.0);
}

TEST(StaleRun, ALargeLagOpensTheGate) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", lag("2", {"--set", "rl.ppo_epochs=2", "--set", "rl.lr=3e-2"})));
  double gate = 0;
  for (const json& line : stage_lines(runs, "run", "rl"))
    gate += 1 - line["triage_gate_weight_mean"].get<double>();
  EXPECT_GT(gate, 0.0) << "no window was gated";
}

TEST(StaleRun, ResumesToTheSameBytes) {
  const TinyRuns runs;
  const Arguments both = lag("2", {"--set", "rl.ppo_epochs=2"});
  (void)runs.finish(runs.start("whole", both));
  Child child(runs.start("killed", both));
  (void)child.kill_when([&] { return runs.lines("killed") >= kTinySft + 5; });
  (void)runs.finish(runs.resume("killed"));
  EXPECT_EQ(slurp(runs / "whole/metrics.jsonl"), slurp(runs / "killed/metrics.jsonl"));
  EXPECT_TRUE(same_files(runs / "whole/checkpoints", runs / "killed/checkpoints"));
  EXPECT_TRUE(
      std::filesystem::exists(runs.checkpoint("whole", kTinySft + 6) / "rollout_weights.safetensors"));
}

TEST(StaleRun, BadInputIsRefused) {
  const TinyRuns runs;
  test_support::expect_refused(runs, runs.start("run", lag("-1")), {"rl.rollout_staleness=-1", "between 0"});
  test_support::expect_refused(runs, runs.start("run", lag("65")), {"rl.rollout_staleness=65", "64"});
}

}  // namespace
}  // namespace minite
