// Runs with FP8 keys and values: a gap of 0 when both sides read the same format, above 0 when one does, and
// the format is part of what a run records and resumes.
#include "io/safetensors.h"
#include "support/refused.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::Child;
using test_support::holds;
using test_support::json_lines;
using test_support::run_minite;
using test_support::same_files;
using test_support::slurp;
using test_support::TinyRuns;

using Arguments = std::vector<std::string>;
const Arguments kBoth = {"--kv-cache", "fp8", "--learner-kv", "fp8_e4m3"};

Arguments with_experts(Arguments more) {
  const auto experts = test_support::tiny_expert_settings();
  more.insert(more.end(), experts.begin(), experts.end());
  return more;
}

double rl_gap(const TinyRuns& runs, const std::string& run) {
  return json::parse(slurp(runs / (run + "/summary.json")))["gap_max"].get<double>();
}

TEST(KvRun, MatchedFormatsHaveNoGapAndOneSideHas) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("both", kBoth));
  (void)runs.finish(runs.start("sampler", {"--kv-cache", "fp8"}));
  (void)runs.finish(runs.start("learner", {"--learner-kv", "fp8"}));
  (void)runs.finish(runs.start("experts_both", with_experts(kBoth)));
  (void)runs.finish(runs.start("experts_sampler", with_experts({"--kv-cache", "fp8"})));
  for (const char* run : {"both", "experts_both"}) EXPECT_EQ(rl_gap(runs, run), 0.0) << run;
  for (const char* run : {"sampler", "learner", "experts_sampler"}) EXPECT_GT(rl_gap(runs, run), 0.0) << run;
  (void)runs.finish(runs.start("plain"));
  EXPECT_NE(slurp(runs / "both/metrics.jsonl"), slurp(runs / "plain/metrics.jsonl"));
}

TEST(KvRun, RecordsTheFormatsOfBothSides) {
  const TinyRuns runs;
  const auto result = runs.finish(runs.start("run", {"--kv-cache", "fp8"}));
  EXPECT_TRUE(holds(result.err, "learner nvfp4_per_token (KV bf16), sampler nvfp4_per_token (KV fp8)"))
      << result.err;
  const json summary = json::parse(slurp(runs / "run/summary.json"));
  EXPECT_EQ(summary["kv_cache"], "fp8");
  EXPECT_EQ(summary["learner_kv"], "bf16");
  const std::string plans = json::parse(slurp(runs / "run/plans.json"))["rl"].dump();
  EXPECT_TRUE(holds(plans, "learner attention: keys and values in bf16")) << plans;
  EXPECT_TRUE(holds(plans, "sampler attention: keys and values in fp8")) << plans;
  EXPECT_TRUE(holds(slurp(runs / "run/config.yaml"), "kv_cache: fp8\nlearner_kv: bf16\n"));
  EXPECT_TRUE(holds(slurp(runs / "run/report.html"), "KV cache (sampler)"));
  // The format belongs to the run: a resumed run may not change it.
  test_support::expect_refused(runs, runs.resume("run", {"--kv-cache", "bf16"}), {"--resume", "config.yaml"});
}

TEST(KvRun, ResumesToTheSameBytes) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole", kBoth));
  int killed = 0;
  for (const int64_t lines : {4, 9, 12}) {
    const std::string run = "killed_" + std::to_string(lines);
    {
      Child child(runs.start(run, kBoth));
      if (!child.kill_when([&] { return runs.lines(run) >= lines; })) continue;
    }
    ++killed;
    (void)runs.finish(runs.resume(run));
    EXPECT_EQ(slurp(runs / "whole/metrics.jsonl"), slurp(runs / (run + "/metrics.jsonl")));
    EXPECT_EQ(slurp(runs / "whole/config.yaml"), slurp(runs / (run + "/config.yaml")));
    EXPECT_TRUE(same_files(runs / "whole/checkpoints", runs / (run + "/checkpoints")));
  }
  EXPECT_GE(killed, 1);
}

/// Puts scales into a checkpoint as another tool would.
void add_scales(const std::filesystem::path& folder, float k, float v) {
  const std::filesystem::path path = folder / "model.safetensors";
  const std::string memory = slurp(path);
  auto content =
      io::parse_safetensors({reinterpret_cast<const std::byte*>(memory.data()), memory.size()}, "x");
  for (const char* layer : {"0", "1"}) {
    const std::string prefix = std::string("model.layers.") + layer + ".self_attn.";
    content.tensors[prefix + "k_proj.k_scale"] = {io::StoredType::f32, {1}, std::as_bytes(std::span(&k, 1))};
    content.tensors[prefix + "v_proj.v_scale"] = {io::StoredType::f32, {1}, std::as_bytes(std::span(&v, 1))};
  }
  io::write_safetensors(path, content.tensors, content.metadata);
}

TEST(KvRun, ScalesOfTheFirstCheckpointAreReadAndKept) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("first", {"--set", "rl.steps=0", "--set", "contrast.steps=0"}));
  const auto init = runs.checkpoint("first", 8);
  const auto generate = [&](const char* kv) {
    return run_minite({"generate", init.string(), "--prompt", "1+2=", "--seed", "3", "-n", "8", "--json",
                       "--kv-cache", kv});
  };
  const auto samples = [&](const char* kv) {
    const auto result = generate(kv);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json plain = samples("bf16"), unit = samples("fp8");
  EXPECT_EQ(unit["kv_cache"], "fp8");
  EXPECT_NE(plain["samples"], unit["samples"]);
  add_scales(init, 0.03f, 0.02f);
  EXPECT_EQ(samples("bf16"), plain);
  EXPECT_NE(samples("fp8")["samples"], unit["samples"]);

  Arguments more = kBoth;
  more.insert(more.end(), {"--init", init.string(), "--set", "sft.steps=0", "--set", "contrast.steps=0"});
  (void)runs.finish(runs.start("second", more));
  EXPECT_EQ(rl_gap(runs, "second"), 0.0);
  const io::SafetensorsFile file(runs.checkpoint("second", 6) / "model.safetensors");
  float k = 0;
  std::memcpy(&k, file.at("model.layers.1.self_attn.k_proj.k_scale").bytes.data(), sizeof(k));
  EXPECT_EQ(k, 0.03f);

  // Nor does a sampler that lags behind forget them: weights that do not move make no gap.
  more.insert(more.end(), {"--set", "rl.lr=0", "--set", "rl.rollout_staleness=2"});
  (void)runs.finish(runs.start("lagging", more));
  EXPECT_EQ(rl_gap(runs, "lagging"), 0.0);

  add_scales(init, 0.0f, 0.02f);
  const auto refused = generate("fp8");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(holds(refused.err, "model.layers.0.self_attn.k_proj.k_scale is 0")) << refused.err;
}

TEST(KvRun, UnknownFormatsAreRefused) {
  const TinyRuns runs;
  test_support::expect_refused(runs, runs.start("run", {"--kv-cache", "int8"}),
                               {"kv_cache=int8", "bf16, fp8"});
  test_support::expect_refused(runs, runs.start("run", {"--learner-kv", "fp4"}),
                               {"learner_kv=fp4", "bf16, fp8"});
  const auto result = run_minite({"eval", "nowhere", "--data", "none", "--kv-cache", "fp4"});
  EXPECT_EQ(result.exit_code, 2);
}

}  // namespace
}  // namespace minite
