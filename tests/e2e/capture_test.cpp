// minite capture and compare on the checkpoints of tiny runs: matched sides, every fault, what is refused.
#include <map>

#include "support/tiny_run.h"

namespace minite {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_support::bytes_below;
using test_support::CommandResult;
using test_support::holds;
using test_support::run_minite;
using test_support::slurp;
using test_support::spill;
using test_support::TinyRuns;
using Arguments = std::vector<std::string>;

/// The checkpoints of one dense run and one with experts, and a sampler's capture of each, made once.
class CaptureVerb : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    runs_ = std::make_unique<TinyRuns>();
    std::string problems;
    for (int i = 1; i < 7; ++i)
      problems +=
          R"({"prompt":")" + std::to_string(i) + R"(+2=","answer":")" + std::to_string(i + 2) + "\"}\n";
    spill(*runs_ / "data.jsonl", problems);
    for (const std::string name : {"dense", "experts"}) {
      Arguments settings = {"--set", "contrast.steps=0"};
      if (name == "experts") {
        const Arguments more = test_support::tiny_expert_settings();
        settings.insert(settings.end(), more.begin(), more.end());
      }
      (void)runs_->finish(runs_->start(name, settings));
      (void)runs_->finish(capture(name, name + ".sampler",
                                  {"--data", runs_->text("data.jsonl"), "--role", "sampler", "--samples", "2",
                                   "--temperature", "0.7", "--max-new-tokens", "8"}));
    }
  }
  static void TearDownTestSuite() { runs_.reset(); }

  static Arguments capture(const std::string& run, const std::string& output, const Arguments& more) {
    Arguments all = {"capture", runs_->checkpoint(run, 14).string(), "-o", runs_->text(output)};
    if (std::ranges::find(more, "--recipe") == more.end())
      all.insert(all.end(), {"--recipe", "nvfp4_per_token"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Arguments of a capture of the sampler's tokens.
  static Arguments again(const std::string& run, const std::string& output, const std::string& role,
                         Arguments more = {}) {
    more.insert(more.end(), {"--role", role, "--tokens", runs_->text(run + ".sampler")});
    return capture(run, output, more);
  }
  static CommandResult compare(const std::string& a, const std::string& b, const Arguments& more = {}) {
    Arguments all = {"compare", runs_->text(a), runs_->text(b)};
    all.insert(all.end(), more.begin(), more.end());
    return run_minite(all);
  }
  static json document(const std::string& a, const std::string& b, int exit_code) {
    const CommandResult result = compare(a, b, {"--json"});
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return json::parse(result.out);
  }
  static void refused(const Arguments& all, const Arguments& parts) {
    const CommandResult result = run_minite(all);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts)
      EXPECT_TRUE(holds(result.err, part)) << part << " in " << result.err;
  }

  static std::unique_ptr<TinyRuns> runs_;
};
std::unique_ptr<TinyRuns> CaptureVerb::runs_;

TEST_F(CaptureVerb, MatchedSidesHaveNoDifferingBit) {
  for (const std::string run : {"dense", "experts"}) {
    (void)runs_->finish(again(run, "learner", "learner", {"--data", runs_->text("data.jsonl")}));
    const json learner = document(run + ".sampler", "learner", 0);
    EXPECT_EQ(learner["differing_bits"], 0) << run;
    EXPECT_EQ(learner["same"], true);
    EXPECT_EQ(learner["first"], nullptr);
    EXPECT_EQ(learner["contract"], json::array());
    EXPECT_EQ(learner["rows"]["only_a"], 0);
    EXPECT_GT(learner["points"].size(), 90u);
    for (const json& point : learner["points"]) EXPECT_EQ(point["status"], "equal") << point;
    EXPECT_TRUE(holds(compare(run + ".sampler", "learner").out, "0 differing bits"));
    // Forced tokens through the sampler give the files that drawing them gave.
    (void)runs_->finish(again(run, "forced", "sampler"));
    EXPECT_EQ(bytes_below(*runs_ / "forced"), bytes_below(*runs_ / (run + ".sampler"))) << run;
  }
}

struct Expected {
  std::string cause;
  int layer;
  std::string first;
};

TEST_F(CaptureVerb, EveryFaultIsNamedWithItsFirstLayer) {
  const std::map<std::string, Expected> faults = {
      {"shift", {"semantic", -1, "logprob"}},
      {"temperature-after-softmax", {"semantic", -1, "logprob"}},
      {"bf16-layer", {"format", 1, "layers.1.qkv.input.codes"}},
      {"stale-weights", {"weights", -1, "embed.weight.digest"}},
      {"kv-fp8", {"format", 0, "layers.0.attn.output"}},
      {"per-tensor-scale", {"scale domain", 0, "layers.0.qkv.input.codes"}},
      {"expert-scale", {"conversion", 1, "layers.1.experts.gate_up.weight.outer_scale"}},
      {"swap-experts", {"permutation", 1, "layers.1.experts.gate_up.weight.digest"}},
  };
  for (const std::string run : {"dense", "experts"}) {
    for (const auto& [fault, expected] : faults) {
      const bool needs_experts = fault == "expert-scale" || fault == "swap-experts";
      if (needs_experts && run == "dense") {
        refused(again(run, "refused", "learner", {"--inject", fault}), {fault, "dense (num_experts=0)"});
        continue;
      }
      for (const std::string role : {"learner", "sampler"}) {
        (void)runs_->finish(again(run, "fault", role, {"--inject", fault}));
        const json said = document(run + ".sampler", "fault", 1);
        EXPECT_EQ(said["cause"]["class"], expected.cause)
            << run << " " << role << " " << fault << said["cause"];
        EXPECT_EQ(said["cause"]["layer"], expected.layer) << run << " " << fault;
        EXPECT_EQ(said["first"]["name"], expected.first) << run << " " << fault;
        EXPECT_EQ(said["injected"], (json{nullptr, fault}));
      }
    }
  }
}

TEST_F(CaptureVerb, SemanticFaultsNameTheSlipThatFits) {
  for (const auto& [fault, slip] : std::map<std::string, std::string>{
           {"shift", "shifted"}, {"temperature-after-softmax", "temperature after softmax"}}) {
    (void)runs_->finish(again("dense", "fault", "learner", {"--inject", fault}));
    const json said = document("dense.sampler", "fault", 1);
    for (const json& row : said["slips"]) {
      const bool b_is_wrong = row["text"].get<std::string>().find("B ") == 0 ||
                              row["text"].get<std::string>().find("of B are") != std::string::npos;
      EXPECT_EQ(row["fits"], row["slip"] == slip && b_is_wrong) << row;
    }
    EXPECT_GT(said["slips"].size(), 4u);
  }
}

TEST_F(CaptureVerb, StaleWeightsAreTheCheckpointBeforeOrOneUpdate) {
  (void)runs_->finish(again("dense", "fault", "learner", {"--inject", "stale-weights"}));
  EXPECT_TRUE(holds(document("dense.sampler", "fault", 1)["cause"]["evidence"].get<std::string>(),
                    "says version 14, in use were 14 at A and 12 at B"));
  // A checkpoint that stands alone has no earlier one.
  fs::copy(runs_->checkpoint("dense", 14), *runs_ / "step_000014");
  (void)runs_->finish({"capture", runs_->text("step_000014"), "-o", runs_->text("fault"), "--recipe",
                       "nvfp4_per_token", "--role", "learner", "--tokens", runs_->text("dense.sampler"),
                       "--inject", "stale-weights"});
  const json said = document("dense.sampler", "fault", 1);
  EXPECT_EQ(said["cause"]["class"], "weights");
  EXPECT_TRUE(holds(said["cause"]["evidence"].get<std::string>(), "14 at A and 15 at B")) << said["cause"];
}

TEST_F(CaptureVerb, MixedRecipesAreACauseNotARefusal) {
  (void)runs_->finish(again("dense", "bf16", "learner", {"--recipe", "nvfp4_w4a16"}));
  const json said = document("dense.sampler", "bf16", 1);
  EXPECT_EQ(said["cause"]["class"], "format");
  EXPECT_EQ(said["contract"][0]["field"], "recipe");
  EXPECT_EQ(said["waterfall"][0]["relative_l2"], 0.0);
  EXPECT_GT(said["waterfall"].back()["relative_l2"], 0.0);
}

TEST_F(CaptureVerb, StoresWhatIsAskedFor) {
  (void)runs_->finish(
      again("experts", "some", "learner",
            {"--points", "output,qkv.input.*", "--layers", "1", "--max-tokens", "3", "--logits"}));
  const json manifest = json::parse(slurp(*runs_ / "some/manifest.json"));
  bool logits = false, codes = false;
  for (const json& t : manifest["tensors"]) {
    EXPECT_TRUE(t["module"] == "" || t["layer"] != 0) << t;
    logits = logits || t["name"] == "lm_head.output";
    codes = codes || t["name"] == "layers.1.qkv.input.codes";
    EXPECT_NE(t["point"], "weight.codes");
  }
  EXPECT_TRUE(logits && codes);
  const json said = document("experts.sampler", "some", 0);  // what both hold agrees
  EXPECT_GT(said["not_compared"].size(), 20u);
  EXPECT_GT(said["rows"]["only_a"], 0);
  EXPECT_EQ(said["differing_bits"], 0);
}

TEST_F(CaptureVerb, BadInputIsNamed) {
  refused(capture("dense", "none", {"--role", "sampler"}), {"--data", "--tokens"});
  refused(capture("dense", "none", {"--role", "learner", "--data", runs_->text("data.jsonl")}),
          {"learner", "--tokens"});
  refused(again("dense", "none", "learner", {"--inject", "shifted"}), {"unknown fault 'shifted'", "shift,"});
  refused(again("dense", "none", "learner", {"--inject", "bf16-layer", "--inject-layer", "2"}),
          {"--inject-layer 2", "0 to 1"});
  refused(again("dense", "none", "learner", {"--inject", "temperature-after-softmax", "--temperature", "1"}),
          {"temperature 1"});
  refused(again("dense", "none", "learner", {"--inject", "kv-fp8", "--kv-cache", "fp8"}), {"fp8 already"});
  refused(again("dense", "none", "learner", {"--inject", "per-tensor-scale", "--recipe", "bf16"}),
          {"per-tensor-scale", "outer scale"});
  refused(again("dense", "none", "learner", {"--inject", "bf16-layer", "--recipe", "bf16"}),
          {"bf16 already"});
  spill(*runs_ / "other.jsonl", "{\"prompt\":\"7+7=\",\"answer\":\"14\"}\n");
  refused(again("dense", "none", "learner", {"--data", runs_->text("other.jsonl")}),
          {"request 0", "problem 1"});
  refused(again("dense", "none", "learner", {"--layers", "1,7"}), {"--layers 7", "0 to 1"});
  refused(again("dense", "dense", "learner"), {"is no capture", "another folder"});
  refused(again("dense", "dense/checkpoints/step_000014", "learner"), {"is no capture"});
  refused(again("dense", "dense.sampler", "learner"), {"--tokens reads"});
  EXPECT_TRUE(fs::exists(*runs_ / "dense/config.yaml"));
  EXPECT_FALSE(fs::exists(*runs_ / "none"));
  EXPECT_FALSE(fs::exists(*runs_ / "none.tmp"));
}

TEST_F(CaptureVerb, CapturesThatCannotMeetAreRefused) {
  const auto against = [](const std::string& b) {
    return Arguments{"compare", runs_->text("dense.sampler"), runs_->text(b)};
  };
  refused(against("experts.sampler"), {"different models"});
  (void)runs_->finish(again("dense", "warm", "learner", {"--temperature", "1"}));
  refused(against("warm"), {"contract.temperature", "0.7", "1.0"});
  fs::copy(*runs_ / "dense.sampler", *runs_ / "cut");
  const std::string file = slurp(*runs_ / "cut/tensors-00000.safetensors");
  spill(*runs_ / "cut/tensors-00000.safetensors", file.substr(0, file.size() / 2));
  const CommandResult cut = run_minite(against("cut"));
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_TRUE(holds(cut.err, "cut/tensors-00000.safetensors") && holds(cut.err, "rows.request")) << cut.err;
}

}  // namespace
}  // namespace minite
