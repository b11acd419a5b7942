// Runs that are looked at: not a bit changes, the same bytes after a resume and at any number of threads;
// what `stats` says about them.
#include "support/refused.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::Child;
using test_support::CommandResult;
using test_support::expect_refused;
using test_support::holds;
using test_support::json_lines;
using test_support::run_minite;
using test_support::same_files;
using test_support::slurp;
using test_support::spill;
using test_support::TinyRuns;
namespace fs = std::filesystem;

std::vector<std::string> with(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Statistics of every 4th step and a dump of steps 9 and 13.
void write_rules(const TinyRuns& runs) {
  spill(runs / "rules.yaml",
        "a:\n  transformer_engine:\n    LogTensorStats: {tensors: [all, operands], stats: all, freq: 4}\n"
        "b:\n  layers: {layer_types: [down]}\n  transformer_engine:\n"
        "    DumpTensors: {start_step: 9, freq: 4, sides: [learner, sampler]}\n");
}
std::vector<std::string> probing(const TinyRuns& runs) {
  return {"--probe", "stats", "--probe-rules", runs.text("rules.yaml")};
}

/// Rules for a probe that is off.
void expect_refused_resume(const TinyRuns& runs, const std::vector<std::string>& more) {
  write_rules(runs);
  const CommandResult result = run_minite(runs.resume("run", more));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(holds(result.err, "use --probe stats")) << result.err;
}

/// All but config.yaml, in which the probe stands.
void expect_same_bits(const TinyRuns& runs, const std::string& a, const std::string& b) {
  EXPECT_EQ(slurp(runs / (a + "/metrics.jsonl")), slurp(runs / (b + "/metrics.jsonl")));
  EXPECT_TRUE(same_files(runs / (a + "/checkpoints"), runs / (b + "/checkpoints")));
}

TEST(StatsRun, ChangesNoBitDenseAndWithExperts) {
  const TinyRuns runs;
  write_rules(runs);
  for (const std::vector<std::string>& model :
       {std::vector<std::string>{}, test_support::tiny_expert_settings()}) {
    const std::string name = model.empty() ? "dense" : "experts";
    const auto settings =
        with(model, {"--recipe", model.empty() ? "nvfp4_per_token" : "nvfp4_cursor2_cutlass_v2"});
    (void)runs.finish(runs.start(name + "_off", settings));
    (void)runs.finish(with(runs.start(name + "_on", settings), probing(runs)));
    expect_same_bits(runs, name + "_off", name + "_on");
    EXPECT_FALSE(fs::exists(runs / (name + "_off/stats.jsonl")));
    std::map<std::string, int> tensors;
    bool of_expert = false;
    for (const json& line : json_lines(runs / (name + "_on/stats.jsonl"))) {
      EXPECT_EQ((line["global_step"].get<int>() - 1) % 4, 0);
      ++tensors[line["tensor"]];
      of_expert |= line["expert"].is_number();
    }
    EXPECT_EQ(tensors.size(), 9u);  // both recipes quantize for the backward products
    EXPECT_EQ(of_expert, !model.empty());
    for (const char* file :
         {"step_000009/manifest.json", "step_000013/manifest.json",
          "step_000013/sampler_pass_00001.safetensors", "step_000013/learner_gradients.safetensors"})
      EXPECT_TRUE(fs::exists(runs / (name + "_on/dumps/" + file))) << file;
    EXPECT_FALSE(fs::exists(runs / (name + "_on/dumps/step_000001")));
  }
}

TEST(StatsRun, ResumeAndThreadsGiveTheSameBytes) {
  const TinyRuns runs;
  write_rules(runs);
  (void)runs.finish(with(runs.start("whole", {"--threads", "1"}), probing(runs)));
  int killed = 0;
  for (const int64_t lines : {6, 10, 14}) {
    const std::string run = "killed_" + std::to_string(lines);
    const auto start = with(runs.start(run, {"--threads", "2"}), probing(runs));
    Child child(start);
    if (!child.kill_when([&] { return runs.lines(run) >= lines; })) continue;
    ++killed;
    (void)runs.finish(runs.resume(run));
    EXPECT_EQ(slurp(runs / "whole/stats.jsonl"), slurp(runs / (run + "/stats.jsonl")));
    EXPECT_TRUE(same_files(runs / "whole/dumps", runs / (run + "/dumps")));
    EXPECT_EQ(slurp(runs / "whole/metrics.jsonl"), slurp(runs / (run + "/metrics.jsonl")));
  }
  EXPECT_GE(killed, 1);
}

TEST(StatsRun, AResumedRunMayBeginToLook) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run"));
  fs::remove_all(runs.checkpoint("run", test_support::kTinySteps));
  (void)runs.finish(
      runs.resume("run", {"--probe", "stats", "--set", "probe_rules=a: {minite: {LogTensorStats: {}}}"}));
  const auto lines = json_lines(runs / "run/stats.jsonl");
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.front()["global_step"], test_support::kTinySteps);
}

/// Takes the last checkpoint away and goes on from the one before.
void go_on(const TinyRuns& runs, const std::vector<std::string>& more = {}) {
  fs::remove_all(runs.checkpoint("run", test_support::kTinySteps));
  (void)runs.finish(runs.resume("run", more));
}

TEST(StatsRun, ConfigSaysWhatAResumedRunLooksAtAndWhatItDidBefore) {
  const TinyRuns runs;
  const std::string rules = "probe_rules=a: {minite: {LogTensorStats: {}}}";
  (void)runs.finish(runs.start("run"));
  const std::string blind = slurp(runs / "run/config.yaml");
  go_on(runs);
  EXPECT_EQ(slurp(runs / "run/config.yaml"), blind) << "nothing changed";
  go_on(runs, {"--threads", "1"});
  EXPECT_EQ(slurp(runs / "run/config.yaml"), blind) << "threads change no bit";

  go_on(runs, {"--probe", "stats", "--set", rules});
  const std::string looking = slurp(runs / "run/config.yaml"), stats = slurp(runs / "run/stats.jsonl");
  EXPECT_TRUE(looking.starts_with("# until step ")) << looking;
  EXPECT_TRUE(holds(looking, R"(: {"probe":"none","probe_rules":""})")) << looking;
  EXPECT_TRUE(holds(looking, "probe: \"stats\"")) << looking;
  EXPECT_NE(stats, "");
  // The next resume goes on looking without being told.
  go_on(runs);
  EXPECT_EQ(slurp(runs / "run/config.yaml"), looking);
  EXPECT_EQ(slurp(runs / "run/stats.jsonl"), stats);
  // The config repeats the run as it now is.
  EXPECT_EQ(run_minite({"report", runs.text("run")}).exit_code, 0);
  // Who stops looking need not name the rules.
  go_on(runs, {"--probe", "none"});
  EXPECT_EQ(slurp(runs / "run/config.yaml"), blind) << "the step that was looked at is gone";
  expect_refused_resume(runs, {"--probe", "none", "--probe-rules", runs.text("rules.yaml")});
}

TEST(StatsRun, MatchedSidesHaveTheSameStatistics) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", {"--probe", "stats", "--set", "contrast.steps=0"}));
  std::map<std::string, json> of_learner;
  int compared = 0;
  for (json line : json_lines(runs / "run/stats.jsonl")) {
    const std::string side = line["side"];
    // The learner sees every row that the sampler saw but packed otherwise: sums may round otherwise.
    const std::string key = line["module"].dump() + line["layer"].dump() + line["tensor"].dump();
    if (line["stage"] != "rl") continue;
    if (side == "learner") of_learner[key] = line;
    if (side != "sampler") continue;
    const json& learner = of_learner.at(key);
    for (const char* name :
         {"count", "cur_amax", "min", "max", "underflows%", "saturated%", "scale_histogram"}) {
      EXPECT_EQ(line.value(name, json()), learner.value(name, json())) << key << " " << name;
    }
    compared += line.contains("scale_histogram") ? 1 : 0;
  }
  EXPECT_GE(compared, 16);  // activation and weight of 4 modules in 2 layers
}

TEST(StatsRun, TheVerbShowsChoosesAndNames) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", {"--probe", "stats"}));
  const CommandResult text = run_minite({"stats", runs.text("run"), "--module", "layers.*.down"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(holds(text.out, "stage rl")) << text.out;
  EXPECT_TRUE(holds(text.out, "layers.1.down")) << text.out;
  EXPECT_FALSE(holds(text.out, "qkv")) << text.out;
  EXPECT_TRUE(holds(text.out, "underflows% above 1 in")) << text.out;

  const json all = json::parse(run_minite({"stats", runs.text("run"), "--json", "--side", "learner"}).out);
  EXPECT_EQ(all["stage"], "rl");
  for (const json& row : all["rows"]) {
    EXPECT_EQ(row["side"], "learner");
    EXPECT_TRUE(row["trend"]["cur_amax"].contains("median")) << row;
  }
  EXPECT_EQ(json::parse(run_minite({"stats", runs.text("run"), "--json", "--step", "1"}).out)["stage"],
            "sft");

  const auto refuse = [&](const std::vector<std::string>& more, const std::string& part) {
    const CommandResult result = run_minite(with({"stats"}, more));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(holds(result.err, part)) << result.err;
  };
  refuse({runs.text("run"), "--step", "2"}, "no statistics of step 2; there are 1, 11");
  refuse({runs.text("run"), "--module", "fc1"}, "fits --module 'fc1'");
  refuse({runs.text("run"), "--stage", "pretrain"}, "no statistics of a stage 'pretrain'");
  refuse({runs.text("run"), "--tensor", "act"}, "--tensor");
  refuse({runs.text("nowhere")}, "holds no run");
  (void)runs.finish(runs.start("blind", {"--set", "rl.steps=0", "contrast.steps=0"}));
  refuse({runs.text("blind")}, "Start it with --probe stats");
}

TEST(StatsRun, BadRulesAreRefusedBeforeAnythingIsWritten) {
  const TinyRuns runs;
  spill(runs / "bad.yaml", "a:\n  transformer_engine:\n    LogTensorStats: {stats: [mean, undrflows%]}\n");
  expect_refused(runs, runs.start("run", {"--probe", "stats", "--probe-rules", runs.text("bad.yaml")}),
                 {"bad.yaml:3: unknown statistic", "did you mean 'underflows%'?"});
  spill(runs / "none.yaml", "a:\n  layers: fc1\n  minite:\n    LogTensorStats: {}\n");
  expect_refused(runs, runs.start("run", {"--probe", "stats", "--probe-rules", runs.text("none.yaml")}),
                 {"section a matches no module", "layers.0.qkv"});
  expect_refused(runs, runs.start("run", {"--probe-rules", runs.text("none.yaml")}), {"use --probe stats"});
  expect_refused(runs, runs.start("run", {"--probe", "stat"}), {"did you mean 'stats'?"});
}

}  // namespace
}  // namespace minite
