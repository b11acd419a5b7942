// Runs with every objective and with what surrounds the loss: KL reference, rejection, dynamic sampling,
// several updates a rollout. Matched execution keeps the gap at 0, and a killed run resumes to the same
// bytes.
#include "support/tiny_run.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::Child;
using test_support::CommandResult;
using test_support::holds;
using test_support::json_lines;
using test_support::kTinySteps;
using test_support::same_files;
using test_support::slurp;
using test_support::TinyRuns;

using Arguments = std::vector<std::string>;

Arguments settings(const Arguments& assignments) {
  Arguments all;
  for (const std::string& a : assignments) all.insert(all.end(), {"--set", a});
  return all;
}

/// Lines of the RL stage.
std::vector<json> rl_lines(const TinyRuns& runs, const std::string& run) {
  std::vector<json> lines;
  for (const json& line : json_lines(runs / (run + "/metrics.jsonl"))) {
    if (line["stage"] == "rl") lines.push_back(line);
  }
  return lines;
}

const Arguments kOffPolicy = {"rl.objective=cispo",       "rl.triage_normalization=global",
                              "rl.kl_loss_coef=0.1",      "rl.filter_groups=true",
                              "rl.max_num_gen_batches=2", "rl.ppo_epochs=2",
                              "rl.ppo_mini_batch_size=2"};

TEST(ObjectiveRun, EveryPresetTrainsWithoutAGap) {
  const TinyRuns runs;
  for (const std::string objective : {"grpo", "dr_grpo", "dapo", "gspo", "cispo", "gmpo", "sapo"}) {
    Arguments set = {"rl.objective=" + objective, "rl.triage=off", "contrast.steps=0"};
    if (objective == "dr_grpo") set.push_back("rl.loss_scale_factor=32");
    (void)runs.finish(runs.start(objective, settings(set)));
    const auto lines = rl_lines(runs, objective);
    ASSERT_EQ(lines.size(), 6U);
    for (const json& line : lines) EXPECT_EQ(line["gap_max"], 0.0) << objective;
  }
  EXPECT_NE(slurp(runs / "grpo/metrics.jsonl"), slurp(runs / "dr_grpo/metrics.jsonl"));
}

TEST(ObjectiveRun, FirstUpdateIsAtTheReference) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", settings({"rl.kl_loss_coef=0.1", "rl.lr=1e-2", "contrast.steps=0"})));
  const auto lines = rl_lines(runs, "run");
  EXPECT_EQ(lines.front()["kl_loss"], 0.0);  // the same weights and recipe: bit for bit
  double later = 0.0;
  for (const json& line : lines) later += line["kl_loss"].get<double>();
  EXPECT_GT(later, 0.0);
}

TEST(ObjectiveRun, SeveralUpdatesShareOneRollout) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", settings(kOffPolicy)));
  bool moved = false;
  for (const json& line : rl_lines(runs, "run")) {
    EXPECT_EQ(line["gap_max"], 0.0);  // of the rollout, not of the moving weights
    EXPECT_EQ(line["tis"], 1.0);
    EXPECT_LE(line["num_gen_batches"], 2.0);
    moved = moved || line["ppo_kl"] != 0.0;
  }
  EXPECT_TRUE(moved);
}

TEST(ObjectiveRun, ResumesToTheSameBytes) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole", settings(kOffPolicy)));
  Child child(runs.start("killed", settings(kOffPolicy)));
  (void)child.kill_when([&] { return runs.lines("killed") >= 11; });
  (void)runs.finish(runs.resume("killed"));
  EXPECT_EQ(runs.lines("killed"), kTinySteps);
  EXPECT_EQ(slurp(runs / "whole/metrics.jsonl"), slurp(runs / "killed/metrics.jsonl"));
  EXPECT_TRUE(same_files(runs / "whole/checkpoints", runs / "killed/checkpoints"));
}

// The ratio is to the sampler's log-probs, but the gap stays that of l_old: a mismatch is not hidden.
TEST(ObjectiveRun, BypassStillMeasuresTheGap) {
  const TinyRuns runs;
  const Arguments off = {"rl.rollout_is=none"}, on = {"rl.rollout_is=none", "rl.bypass_mode=true"};
  (void)runs.finish(runs.start("off", settings(off)));
  (void)runs.finish(runs.start("on", settings(on)));
  const auto stage = [&](const std::string& run, const char* name) {
    std::vector<json> lines;
    for (const json& line : json_lines(runs / (run + "/metrics.jsonl"))) {
      if (line["stage"] == name) lines.push_back(line);
    }
    return lines;
  };
  EXPECT_EQ(stage("on", "rl"), stage("off", "rl")) << "matched: l_old is l_sampler";
  for (const json& line : stage("on", "contrast")) {
    EXPECT_GT(line["gap_max"], 0.0);
    EXPECT_NE(line["ppo_kl"], 0.0) << "mean of l_sampler - l";
  }
  for (const json& line : stage("off", "contrast")) EXPECT_EQ(line["ppo_kl"], 0.0);
}

// Negative responses that an update moved away from lose their loss for the updates that follow.
TEST(ObjectiveRun, OffPolicyMaskingNeedsSeveralUpdates) {
  const TinyRuns runs;
  for (const std::string epochs : {"1", "3"}) {
    (void)runs.finish(runs.start(epochs, settings({"rl.opsm_delta=1e-4", "rl.ppo_epochs=" + epochs,
                                                   "rl.lr=1e-2", "contrast.steps=0"})));
    double masked = 0;
    for (const json& line : rl_lines(runs, epochs)) masked += line["opsm_clipfrac"].get<double>();
    EXPECT_EQ(masked > 0, epochs == "3") << masked;
  }
}

// Dynamic sampling begins with the rollout of a run without it.
TEST(ObjectiveRun, FilterReplacesPromptsWithoutSignal) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("plain", settings({"contrast.steps=0"})));
  (void)runs.finish(runs.start(
      "filtered", settings({"rl.filter_groups=true", "rl.max_num_gen_batches=4", "contrast.steps=0"})));
  const json plain = rl_lines(runs, "plain").front(), filtered = rl_lines(runs, "filtered").front();
  ASSERT_LT(plain["groups_with_signal"], 1.0);
  EXPECT_GT(filtered["num_gen_batches"], 1.0);
  EXPECT_GT(filtered["tokens"], plain["tokens"]);
}

TEST(ObjectiveRun, WarnsWhenMostTokensAreRejected) {
  const TinyRuns runs;
  const CommandResult result = runs.finish(
      runs.start("run", settings({"rl.rollout_rs=seq_sum_k1", "rl.rollout_rs_threshold=0.9999_1.0001"})));
  EXPECT_TRUE(holds(result.err, ": rollout_rs=seq_sum_k1")) << result.err;
  for (const json& line : rl_lines(runs, "run")) EXPECT_EQ(line["rollout_rs_masked_fraction"], 0.0);
  const CommandResult masked = runs.finish(
      runs.start("masked", settings({"rl.rollout_is=sequence", "rl.rollout_is_threshold=0.9999_1.0001"})));
  EXPECT_TRUE(holds(masked.err, "warning: contrast step 1: rollout_is=sequence")) << masked.err;
  EXPECT_FALSE(holds(masked.err, "warning: rl "))
      << "matched recipes have nothing to warn of: " << masked.err;
}

// The pass for l_old and the update see other micro-batches; on policy nothing is clipped, by a single bit.
TEST(ObjectiveRun, OnPolicyClipsNothingWhateverTheMicroBatches) {
  const TinyRuns runs;
  std::vector<std::vector<json>> all;
  for (const std::string tokens : {"40", "256", "16384"}) {
    (void)runs.finish(runs.start(tokens, settings({"micro_tokens=" + tokens, "contrast.steps=0"})));
    all.push_back(rl_lines(runs, tokens));
    for (const json& line : all.back()) {
      EXPECT_EQ(line["pg_clipfrac"], 0.0) << tokens;
      EXPECT_EQ(line["ois"], 1.0) << tokens;
      EXPECT_EQ(line["ppo_kl"], 0.0) << tokens;
      EXPECT_EQ(line["gap_max"], 0.0) << tokens;
    }
  }
}

// Both sides divide logits by the temperature, in decode, in the pass for l_old and in the update.
TEST(ObjectiveRun, TheGapIsZeroAtEveryTemperature) {
  const TinyRuns runs;
  for (const std::string t : {"0.6", "1.5"}) {
    (void)runs.finish(runs.start(t, settings({"rl.temperature=" + t, "contrast.steps=0"})));
    for (const json& line : rl_lines(runs, t)) {
      EXPECT_EQ(line["gap_max"], 0.0) << t;
      EXPECT_EQ(line["tis"], 1.0) << t;
    }
  }
}

// After the first update of a step the weights before it are gone: half a step is never saved as its start.
TEST(ObjectiveRun, AFailureBetweenTwoUpdatesSavesNothing) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("sft", settings({"rl.steps=0", "contrast.steps=0"})));
  const Arguments diverging = {"rl.lr=1e6", "rl.weight_decay=1e6", "rl.warmup_steps=0", "rl.ppo_epochs=40"};
  const CommandResult result = test_support::run_minite(runs.start("run", settings(diverging)));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(holds(result.err, "rl step 1")) << result.err;
  EXPECT_TRUE(holds(result.err, "Earlier updates of the step are lost")) << result.err;
  EXPECT_EQ(slurp(runs.checkpoint("run", 8) / "model.safetensors"),
            slurp(runs.checkpoint("sft", 8) / "model.safetensors"));
}

}  // namespace
}  // namespace minite
