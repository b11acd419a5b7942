// Settings and data that cannot work are refused before anything is written, with the value, the place and
// the remedy.
#include "support/refused.h"

namespace minite {
namespace {

using test_support::bytes_below;
using test_support::CommandResult;
using test_support::expect_refused;
using test_support::holds;
using test_support::run_minite;
using test_support::spill;
using test_support::TinyRuns;
namespace fs = std::filesystem;

struct BadSetting {
  std::string set;
  std::vector<std::string> parts;
};

void expect_all_refused(const std::vector<BadSetting>& rows) {
  const TinyRuns runs;
  for (const BadSetting& row : rows) expect_refused(runs, runs.start("run", {"--set", row.set}), row.parts);
}

TEST(BadInput, Names) {
  expect_all_refused({
      {"model.hidden_sise=32", {"model.hidden_sise", "did you mean 'model.hidden_size'?"}},
      {"learner_recipe=nvfp4_per_tokn", {"nvfp4_per_tokn", "did you mean 'nvfp4_per_token'?"}},
      {"contrast.sampler_recipe=bf61", {"bf61", "did you mean 'bf16'?"}},
      {"backend=smid", {"smid", "did you mean 'simd'?"}},
      {"kv_cache=fp4", {"kv_cache=fp4", "expected bf16, fp8, fp8_e4m3", "did you mean 'fp8'?"}},
      {"learner_kv=", {"learner_kv=", "expected bf16, fp8"}},
      {"sampler_policy=quickest", {"quickest", "batch_invariant"}},
      {"data.generator=adition", {"adition", "did you mean 'addition'?"}},
      {"data.options=digit=1", {"digit", "did you mean 'digits'?"}},
      {"rl.adv_estimator=ppo", {"ppo", "grpo"}},
      {"rl.rollout_is=tokn", {"tokn", "did you mean 'token'?"}},
      {"rl.loss_agg_mode=mean", {"loss_agg_mode", "mean", "token-mean"}},
      {"rl.triage=yes", {"rl.triage=yes", "on or off"}},
      {"no_equals_sign", {"no_equals_sign", "key=value"}},
  });
}

TEST(BadInput, Numbers) {
  expect_all_refused({
      {"rl.lr=fast", {"rl.lr=fast", "a number"}},
      {"rl.lr=inf", {"rl.lr=inf", "between"}},
      {"rl.lr=nan", {"rl.lr=nan"}},
      {"rl.steps=1.5", {"rl.steps=1.5", "a whole number"}},
      {"rl.steps=-1", {"rl.steps=-1", "between 0"}},
      {"rl.steps=9223372036854775807", {"rl.steps=9.2", "between 0"}},
      {"sft.batch_size=0", {"sft.batch_size=0", "between 1"}},
      {"rl.n=1", {"rl.n=1", "at least 2"}},
      {"rl.n=99999999999", {"rl.n=99999999999", "rl.train_batch_size=4"}},
      {"rl.temperature=0", {"rl.temperature=0"}},
      {"rl.top_p=0", {"rl.top_p=0"}},
      {"rl.top_k=-1", {"rl.top_k=-1"}},
      {"rl.clip_ratio_low=nan", {"clip_ratio_low", "nan"}},
      {"beta1=1", {"beta1=1", "between 0"}},
      {"max_grad_norm=nan", {"max_grad_norm=nan"}},
      {"threads=100000", {"threads=100000", "4096"}},
      {"max_length=1", {"max_length=1"}},
      {"micro_tokens=8", {"micro_tokens=8", "max_length=32"}},
      {"data.problems=500", {"500", "only 100 exist"}},
      {"checkpoint_every=0", {"checkpoint_every=0"}},
      {"seed=-1", {"seed=-1"}},
  });
}

TEST(BadInput, ShapesThatRecipesCannotTake) {
  expect_all_refused({
      {"model.hidden_size=40", {"layers.0.qkv", "K=40 must be a multiple of 16", "64x40"}},
      {"model.hidden_size=100", {"layers.0.qkv", "K=100", "64x100"}},
      {"model.intermediate_size=100", {"layers.0.gate_up", "N=200 must be a multiple of 32 for mxfp8"}},
      {"model.hidden_size=0", {"hidden_size=0"}},
      {"model.num_key_value_heads=3", {"num_attention_heads", "num_key_value_heads=3"}},
      {"model.head_dim=7", {"head_dim=7 must be even"}},
      {"learner_recipe=nvfp4_per_tensor", {"layers.0.qkv", "nvfp4_per_tensor", "batch_invariant", "fastest"}},
      {"contrast.sampler_recipe=nvfp4_per_tensor", {"layers.0.qkv", "batch_invariant"}},
  });
}

TEST(BadInput, OptionsThatContradictEachOther) {
  expect_all_refused({
      {"rl.triage_normalization=global", {"normalization=global", "loss_agg_mode=seq-mean-token-mean"}},
      {"rl.loss_agg_mode=token-mean", {"normalization=response", "loss_agg_mode=token-mean"}},
      {"rl.loss_scale_factor=2", {"loss_scale_factor", "seq-mean-token-mean"}},
      {"data.file=x.jsonl", {"data.file='x.jsonl'", "data.generator='addition'"}},
      {"max_length=6", {"problem '", "are 7 tokens", "max_length=6"}},
      {"max_length=5", {"prompt '", "has 5 tokens", "max_length=5"}},
  });
  const TinyRuns runs;
  expect_refused(runs, runs.start("run", {"--device", "cuda"}), {"--device cuda", "--device cpu"});
  expect_refused(runs, runs.start("run", {"--seed", "-4"}), {"--seed", "-4"});
  expect_refused(runs, runs.start("run", {"--steps", "many"}), {"--steps"});
  expect_refused(runs, {"rl", "-o", runs.text("run")}, {"--preset", "--config", "--data"});
  expect_refused(runs, {"rl", "--config", runs.text("none.yaml")}, {"none.yaml", "no such file"});
  expect_refused(runs, {"rl", "--preset", "demoo", "-o", runs.text("run")}, {"demoo", "demo"});
}

TEST(BadInput, ExpertsThatDoNotFit) {
  const TinyRuns runs;
  const auto refuse = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    auto all = test_support::tiny_expert_settings();
    all.insert(all.end(), more.begin(), more.end());
    expect_refused(runs, runs.start("run", all), parts);
  };
  refuse({"--set", "model.num_experts=1"}, {"num_experts=1", "between 2 and"});
  refuse({"--set", "model.num_experts=-4"}, {"num_experts=-4", "between 2 and"});
  refuse({"--set", "model.num_experts_per_tok=5"}, {"num_experts_per_tok=5", "num_experts=4"});
  refuse({"--set", "model.num_experts_per_tok=0"}, {"num_experts_per_tok=0", "between 1 and"});
  refuse({"--set", "model.moe_intermediate_size=0"}, {"moe_intermediate_size=0", "between 1 and"});
  refuse({"--set", "model.moe_intermediate_size=40"},
         {"layers.0.experts.gate_up", "N=80", "multiple of 32", "mxfp8", "80x32"});
  refuse({"--set", "model.moe_intermediate_size=40", "--recipe", "nvfp4_per_token_bf16_bwd"},
         {"layers.0.experts.down", "K=40", "multiple of 16", "nvfp4", "32x40"});

  const std::string rules = runs.text("rules.yaml");
  spill(rules, "rules:\n  - match: layers.1.router\n    recipe: nvfp4_per_token_bf16_bwd\n");
  refuse({"--rules", rules}, {"layers.1.router", "nvfp4_per_token_bf16_bwd", "rule 1", "bf16 or fp32"});
  spill(rules, "rules:\n  - match: layers.0.gate_up\n    recipe: bf16\n");
  refuse({"--rules", rules}, {"rule 1", "layers.0.gate_up", "selects none"});
  spill(rules, "rules:\n  - match: layers.*.experts.*\n    recipe: bf16\n");
  expect_refused(runs, runs.start("run", {"--rules", rules}),
                 {"rule 1", "layers.*.experts.*", "selects none", "layers.0.gate_up"});
}

TEST(BadInput, ConfigFilesNameTheLine) {
  const TinyRuns runs;
  const std::string file = runs.text("bad.yaml");
  const auto refuse = [&](const std::string& yaml, const std::vector<std::string>& parts) {
    spill(file, yaml);
    expect_refused(runs, {"rl", "--config", file, "-o", runs.text("run")}, parts);
  };
  refuse("seed: 1\nrl:\n  stepz: 3\n", {file + ":3", "rl.stepz", "did you mean 'rl.steps'?"});
  refuse("seed: [1]\n", {file + ":1", "seed"});
  refuse("a: b: c\n", {file + ":1", "not valid YAML"});
  refuse("- 1\n", {file, "a map"});
}

TEST(BadInput, ProblemFilesNameTheLine) {
  const TinyRuns runs;
  const std::string file = runs.text("problems.jsonl");
  const auto refuse = [&](const std::vector<std::string>& parts) {
    expect_refused(runs, {"rl", "--data", file, "-o", runs.text("run"), "--steps", "1"}, parts);
    expect_refused(runs, {"sft", "--data", file, "-o", runs.text("run"), "--steps", "1"}, parts);
  };
  refuse({file, "no such file", "tasks make"});
  const std::string good = "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n";
  const std::vector<BadSetting> rows = {
      {good + "{\"prompt\": \"1+2=\"\n", {file + ":2", "malformed JSON"}},
      {good + good + "{\"prompt\": \"\", \"answer\": \"2\"}\n",
       {file + ":3", "\"prompt\" is an empty string"}},
      {"{\"prompt\": \"1+1=\", \"answer\": \"\"}\n", {file + ":1", "\"answer\" is an empty string"}},
      {"{\"prompt\": \"1+1=\"}\n", {file + ":1", "missing key \"answer\""}},
      {"{\"prompt\": 1, \"answer\": \"2\"}\n", {file + ":1", "\"prompt\" is number", "string"}},
      {"[1]\n", {file + ":1", "array"}},
      {good + "{\"prompt\": \"\xff\", \"answer\": \"2\"}\n", {file + ":2", "UTF-8"}},
      {"", {file, "holds no problem"}},
      {"{\"prompt\": \"" + std::string(96, '1') + "\", \"answer\": \"2\"}\n", {"97 tokens", "max_length=96"}},
  };
  for (const BadSetting& row : rows) {
    spill(file, row.set);
    refuse(row.parts);
  }
}

TEST(BadInput, ExistingRunsAreLeftAlone) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run"));
  const std::string run = runs.text("run");
  expect_refused(runs, runs.start("run"), {run, "already holds a run", "--resume", "-o"});
  expect_refused(runs, runs.resume("run", {"--steps", "9"}), {"--resume", "config.yaml", "--threads"});
  expect_refused(runs, runs.resume("run", {"--set", "rl.lr=1"}), {"--resume", "config.yaml"});
  expect_refused(runs, runs.resume("run", {"--recipe", "bf16"}), {"--resume", "config.yaml"});
  expect_refused(runs, runs.resume("run", {"--preset", "demo"}), {"--resume", "config.yaml"});
  expect_refused(runs, runs.resume("run", {"-o", runs.text("else")}), {"--resume", "-o"});
  expect_refused(runs, runs.resume("nowhere"), {runs.text("nowhere"), "holds no run"});
  expect_refused(runs, {"rl", "--resume", runs.text("")}, {"holds no run"});

  expect_refused(
      runs, runs.start("new", {"--set", "sft.steps=0", "--set", "rl.steps=0", "--set", "contrast.steps=0"}),
      {"nothing to do", "sft.steps"});
  spill(runs / "run/config.yaml", "seed: x\n");
  expect_refused(runs, runs.resume("run"), {"config.yaml:1", "seed=x"});
}

TEST(BadInput, ADamagedLogStopsAResume) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run"));
  std::string log = test_support::slurp(runs / "run/metrics.jsonl");
  log[0] = '?';
  spill(runs / "run/metrics.jsonl", log);
  expect_refused(runs, runs.resume("run"), {"metrics.jsonl:1"});
}

}  // namespace
}  // namespace minite
