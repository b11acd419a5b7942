// A whole run from one command: what the run folder holds and what its numbers say.
#include <set>

#include "support/tiny_run.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::bytes_below;
using test_support::CommandResult;
using test_support::holds;
using test_support::json_lines;
using test_support::kTinyContrast;
using test_support::kTinyRl;
using test_support::kTinySft;
using test_support::kTinySteps;
using test_support::same_files;
using test_support::slurp;
using test_support::spill;
using test_support::TinyRuns;

TEST(Run, LeavesEverythingThatAFolderPromises) {
  const TinyRuns runs;
  const CommandResult result = runs.finish(runs.start("run", {"--json"}));
  const json summary = json::parse(result.out);  // one document and nothing else
  EXPECT_EQ(summary, json::parse(slurp(runs / "run/summary.json")));
  EXPECT_EQ(result.err.find_first_of("\r\x1b"), std::string::npos) << "a bar on no terminal: " << result.err;
  EXPECT_FALSE(holds(result.err, "[#")) << result.err;

  EXPECT_EQ(summary["steps"], kTinySteps);
  EXPECT_EQ(summary["gap_max"], 0.0);
  EXPECT_EQ(summary["gap_mean"], 0.0);
  EXPECT_GT(summary["contrast_gap_mean"], 0.0);
  EXPECT_GT(summary["tokens_per_s"], 0.0);
  for (const char* stage : {"sft", "rl", "contrast"})
    EXPECT_GT(summary["stage_seconds"][stage], 0.0) << stage;
  EXPECT_EQ(summary["checkpoint"], "checkpoints/step_000014");

  std::set<std::string> names;
  for (const auto& [name, bytes] : bytes_below(runs / "run")) names.insert(name.substr(0, name.find('/')));
  EXPECT_EQ(names, (std::set<std::string>{"config.yaml", "plans.json", "metrics.jsonl", "timings.jsonl",
                                          "rollouts.jsonl", "summary.json", "report.html", "checkpoints",
                                          "tensorboard"}));
  const json plans = json::parse(slurp(runs / "run/plans.json"));
  for (const char* stage : {"sft", "rl", "contrast"}) {
    const std::string all = plans.at(stage).dump();
    EXPECT_TRUE(holds(all, "learner layers.0.qkv fprop: ")) << all;
    EXPECT_TRUE(holds(all, "sampler layers.1.down fprop: ")) << all;
    EXPECT_TRUE(holds(all, "row invariant")) << all;
  }
  EXPECT_TRUE(holds(plans["contrast"].dump(), "sampler layers.0.qkv fprop: ")) << plans["contrast"];
  EXPECT_FALSE(plans["contrast"] == plans["rl"]);
  for (const int64_t step : {kTinySft, kTinySft + kTinyRl, kTinySteps}) {
    std::set<std::string> files;
    for (const auto& [name, bytes] : bytes_below(runs.checkpoint("run", step))) files.insert(name);
    EXPECT_EQ(files,
              (std::set<std::string>{"config.json", "manifest.json", "model.safetensors", "tokenizer.json",
                                     "tokenizer_config.json", "trainer.safetensors"}))
        << step;
  }
  EXPECT_TRUE(holds(slurp(runs / "run/report.html"), "</html>"));
}

TEST(Run, LinesAreInOrderWithoutTimes) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run"));
  const auto metrics = json_lines(runs / "run/metrics.jsonl"),
             timings = json_lines(runs / "run/timings.jsonl");
  ASSERT_EQ(metrics.size(), static_cast<size_t>(kTinySteps));
  ASSERT_EQ(timings.size(), metrics.size());
  double first = 0, signal = 0;
  for (int64_t i = 0; i < kTinySteps; ++i) {
    const json& row = metrics[static_cast<size_t>(i)];
    const bool sft = i < kTinySft, rl = !sft && i < kTinySft + kTinyRl;
    EXPECT_EQ(row["global_step"], i + 1);
    EXPECT_EQ(row["stage"], sft ? "sft" : rl ? "rl" : "contrast");
    EXPECT_EQ(row["step"], sft ? i + 1 : rl ? i + 1 - kTinySft : i + 1 - kTinySft - kTinyRl);
    for (const auto& item : row.items()) EXPECT_FALSE(holds(item.key(), "second")) << item.key();
    if (rl) {
      EXPECT_EQ(row["gap_max"], 0.0) << row;
      EXPECT_EQ(row["train_rollout_logprob_abs_diff"], 0.0) << row;
      first += row["reward"].get<double>();
      signal += row["grad_norm"].get<double>();
    } else if (!sft) {
      EXPECT_GT(row["gap_max"], 0.0) << row;
    }
    EXPECT_FALSE(timings[static_cast<size_t>(i)]["seconds"].empty());
  }
  EXPECT_GT(signal, 0.0) << "no reward, so the RL steps proved nothing";
  const json summary = json::parse(slurp(runs / "run/summary.json"));
  EXPECT_NEAR(summary["reward_first"].get<double>(), first / kTinyRl,
              1e-12);  // fewer than 20 steps: all of them
  EXPECT_EQ(summary["reward_first"], summary["reward_last"]);
}

TEST(Run, ItsOwnConfigRepeatsIt) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("one", {"--seed", "5", "--threads", "1"}));
  (void)runs.finish(
      {"rl", "--config", runs.text("one/config.yaml"), "-o", runs.text("two"), "--threads", "2"});
  EXPECT_EQ(slurp(runs / "one/metrics.jsonl"), slurp(runs / "two/metrics.jsonl"));
  EXPECT_TRUE(same_files(runs / "one/checkpoints", runs / "two/checkpoints"));
  (void)runs.finish(runs.start("other", {"--seed", "6"}));
  EXPECT_NE(slurp(runs / "one/metrics.jsonl"), slurp(runs / "other/metrics.jsonl"));
}

TEST(Run, BackendsGiveTheSameLines) {
  const TinyRuns runs;
  const std::vector<std::string> tinier = {"--set", "model.num_hidden_layers=1",
                                           "--set", "sft.batch_size=8",
                                           "--set", "sft.steps=2",
                                           "--set", "rl.steps=1",
                                           "--set", "rl.n=2",
                                           "--set", "contrast.steps=1",
                                           "--set", "max_length=12"};
  const std::vector<std::vector<std::string>> models = {{}, test_support::tiny_expert_settings()};
  for (size_t i = 0; i < models.size(); ++i) {
    auto simd = tinier;
    simd.insert(simd.end(), models[i].begin(), models[i].end());
    auto reference = simd;
    reference.insert(reference.end(), {"--set", "backend=ref"});
    const std::string a = "auto" + std::to_string(i), b = "ref" + std::to_string(i);
    (void)runs.finish(runs.start(a, simd));
    (void)runs.finish(runs.start(b, reference));
    EXPECT_EQ(slurp(runs / (a + "/metrics.jsonl")), slurp(runs / (b + "/metrics.jsonl")));
    EXPECT_TRUE(same_files(runs / (a + "/checkpoints"), runs / (b + "/checkpoints")));
  }
}

TEST(Run, ExpertsHaveNoGapAndLoadsAreReported) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", test_support::tiny_expert_settings()));
  const json summary = json::parse(slurp(runs / "run/summary.json"));
  EXPECT_EQ(summary["gap_max"], 0.0);
  EXPECT_GT(summary["contrast_gap_mean"], 0.0);
  for (const json& row : json_lines(runs / "run/metrics.jsonl")) {
    EXPECT_GE(row["router_aux_loss"].get<double>(), 1.0) << row;
    EXPECT_GE(row["expert_load_max"].get<double>(), 1.0) << row;
    EXPECT_LE(row["expert_load_max"].get<double>(), 2.0) << "2 of 4 experts: at most all tokens: " << row;
    EXPECT_TRUE(row.contains("experts_idle"));
  }
  const json config = json::parse(slurp(runs.checkpoint("run", kTinySft) / "config.json"));
  EXPECT_EQ(config["model_type"], "qwen3_moe");
  EXPECT_EQ(config["num_experts"], 4);
}

TEST(Run, ConfigIsPrintedWithoutARun) {
  const TinyRuns runs;
  const CommandResult printed = runs.finish(runs.start("run", {"--print-config"}));
  EXPECT_FALSE(std::filesystem::exists(runs / "run"));
  spill(runs / "printed.yaml", printed.out);
  EXPECT_EQ(runs.finish({"rl", "--config", runs.text("printed.yaml"), "--print-config"}).out, printed.out);
}

TEST(Run, SftStopsAfterItsStage) {
  const TinyRuns runs;
  (void)runs.finish({"sft", "--config", runs.text("tiny.yaml"), "-o", runs.text("run"), "--steps", "3"});
  EXPECT_EQ(runs.lines("run"), 3);
  const json summary = json::parse(slurp(runs / "run/summary.json"));
  EXPECT_EQ(summary["checkpoint"], "checkpoints/step_000003");
  EXPECT_FALSE(summary.contains("gap_max"));
}

}  // namespace
}  // namespace minite
