// minite capture and compare on the checkpoints of tiny runs: matched sides, every fault, what is refused.
#include <map>
#include <set>

#include "minite/tensor.h"
#include "support/hand_capture.h"
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
        EXPECT_EQ(said["also"], json::array())
            << run << " " << role << " " << fault << ": one fault, one cause";
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

TEST_F(CaptureVerb, SeveralFaultsAreSeveralCauses) {
  struct Case {
    std::string run, faults;
    std::string cause, first;
    std::vector<std::pair<std::string, int>> also;  ///< class and layer
  };
  const std::vector<Case> cases = {
      {"dense", "kv-fp8,bf16-layer", "format", "layers.0.attn.output", {{"format", 1}}},
      {"dense", "bf16-layer,stale-weights", "weights", "embed.weight.digest", {{"format", 1}}},
      {"dense", "stale-weights,kv-fp8", "weights", "embed.weight.digest", {{"format", 0}}},
      {"dense", "per-tensor-scale,bf16-layer", "scale domain", "layers.0.qkv.input.codes", {{"format", 1}}},
      {"experts", "kv-fp8,swap-experts", "format", "layers.0.attn.output", {{"permutation", 1}}},
      {"experts", "expert-scale,kv-fp8", "format", "layers.0.attn.output", {{"conversion", 1}}},
      {"experts",
       "swap-experts,expert-scale,kv-fp8,stale-weights",
       "weights",
       "embed.weight.digest",
       {{"format", 0}}},
  };
  for (const Case& c : cases) {
    if (c.faults == cases[0].faults) {
      // An option that takes a list does not swallow the checkpoint behind it.
      (void)runs_->finish({"capture", "--inject", c.faults, runs_->checkpoint(c.run, 14).string(), "-o",
                           runs_->text("fault"), "--recipe", "nvfp4_per_token", "--role", "learner",
                           "--tokens", runs_->text(c.run + ".sampler")});
    } else {
      (void)runs_->finish(again(c.run, "fault", "learner", {"--inject", c.faults}));
    }
    const json said = document(c.run + ".sampler", "fault", 1);
    EXPECT_EQ(said["injected"], (json{nullptr, c.faults}));
    EXPECT_EQ(said["cause"]["class"], c.cause) << c.faults << said["cause"];
    EXPECT_EQ(said["first"]["name"], c.first) << c.faults;
    std::vector<std::pair<std::string, int>> also;
    for (const json& cause : said["also"]) also.emplace_back(cause["class"], cause["layer"]);
    EXPECT_EQ(also, c.also) << c.faults << said["also"];
    EXPECT_TRUE(holds(compare(c.run + ".sampler", "fault").out, "also differs"));
  }
}

TEST_F(CaptureVerb, ReplayedExpertsChangeNoBitWithMatchedRecipes) {
  const auto sampler = [](const std::string& name, const std::string& mode) {
    (void)runs_->finish(capture("experts", name,
                                {"--data", runs_->text("data.jsonl"), "--role", "sampler", "--samples", "2",
                                 "--temperature", "0.7", "--max-new-tokens", "8", "--router-replay", mode}));
  };
  const auto learner = [](const std::string& name, const std::string& tokens, Arguments more = {}) {
    more.insert(more.end(), {"--role", "learner", "--tokens", runs_->text(tokens), "--json"});
    return json::parse(runs_->finish(capture("experts", name, more)).out);
  };
  for (const std::string mode : {"R2", "R3"}) {
    sampler("drawn", mode);
    const json old = learner("old", "drawn"), update = learner("update", "old");
    EXPECT_EQ(old["contract"]["replay"], mode) << "as the capture that gives the tokens says";
    EXPECT_EQ(old["replayed"].is_null(), mode == "R2") << "the pass for l_old routes live under R2";
    EXPECT_GT(update["replayed"]["rows"], 50);
    EXPECT_EQ(update["replayed"]["other_experts"], 0);
    for (const auto& [a, b] : {std::pair{"drawn", "old"}, std::pair{"old", "update"}}) {
      const json said = document(a, b, 0);
      EXPECT_EQ(said["differing_bits"], 0) << mode << a << b;
      EXPECT_EQ(said["contract"], json::array());
    }
    // Another recipe would have gone elsewhere; the experts agree all the same.
    const json bf16 = learner("bf16", "old", {"--recipe", "bf16"});
    EXPECT_GT(bf16["replayed"]["other_experts"], 0);
    const json said = document("old", "bf16", 1);
    for (const json& layer : said["experts"]) EXPECT_EQ(layer["other_experts"], 0);
    // A recording that is read one row off is routing, in the first layer that has it.
    (void)learner("fault", "old", {"--inject", "shift-routes"});
    const json slip = document("old", "fault", 1);
    EXPECT_EQ(slip["cause"]["class"], "routing");
    EXPECT_EQ(slip["cause"]["layer"], 0);
    EXPECT_EQ(slip["first"]["name"], "layers.0.router.experts");
    EXPECT_TRUE(holds(slip["cause"]["evidence"], "of B that follow another have the experts of A"));
    EXPECT_TRUE(holds(slip["cause"]["evidence"], "The same at layers.1.router"));
    EXPECT_EQ(slip["also"], json::array());
  }
  // Replay off on one side is another contract.
  refused({"compare", runs_->text("experts.sampler"), runs_->text("old")}, {"contract.replay", "off", "R3"});
  refused(capture("dense", "none",
                  {"--data", runs_->text("data.jsonl"), "--role", "sampler", "--router-replay", "R3"}),
          {"--router-replay R3", "num_experts=0"});
  refused(again("experts", "none", "learner", {"--router-replay", "r3"}), {"router_replay 'r3'", "R3"});
  refused(again("experts", "none", "learner", {"--inject", "shift-routes"}),
          {"shift-routes", "--router-replay R3"});
  (void)runs_->finish(again("experts", "short", "sampler", {"--max-tokens", "2", "--router-replay", "R3"}));
  refused(capture("experts", "none", {"--role", "learner", "--tokens", runs_->text("short")}),
          {"short cannot be replayed", "position 2", "--max-tokens"});
}

TEST_F(CaptureVerb, ExpertsOnRanksCompareWithExpertsOnOne) {
  for (const std::string ranks : {"2", "3", "4"}) {
    const std::string name = "ranks" + ranks;
    (void)runs_->finish(again("experts", name, "learner", {"--expert-ranks", ranks}));
    const json said = document("experts.sampler", name, 0);
    EXPECT_EQ(said["differing_bits"], 0);
    EXPECT_EQ(said["expert_ranks"], (json{1, std::stoi(ranks)}));
    for (const json& layer : said["experts"])
      EXPECT_EQ(layer["absent_pairs"], (json{0, 0})) << "every expert";
    EXPECT_EQ(said["not_compared"], json::array());
    EXPECT_EQ(document(name, "experts.sampler", 0)["points"].size(), said["points"].size());
    EXPECT_TRUE(
        holds(compare("experts.sampler", name).out, "experts lie on: 1 ranks at A, " + ranks + " at B"));
  }
  EXPECT_EQ(document("ranks2", "ranks3", 0)["differing_bits"], 0);
  // One rank stores what it would store without the option.
  (void)runs_->finish(again("experts", "one", "sampler", {"--expert-ranks", "1"}));
  EXPECT_EQ(bytes_below(*runs_ / "one"), bytes_below(*runs_ / "experts.sampler"));
  // A fault is found through the ranks.
  (void)runs_->finish(
      again("experts", "fault", "learner", {"--inject", "expert-scale", "--expert-ranks", "2"}));
  const json fault = document("experts.sampler", "fault", 1);
  EXPECT_EQ(fault["cause"]["class"], "conversion");
  EXPECT_TRUE(holds(fault["cause"]["evidence"], "has the scales of expert")) << fault["cause"];
  // The experts of a capture on ranks can be replayed.
  (void)runs_->finish(again("experts", "drawn", "sampler", {"--router-replay", "R3", "--expert-ranks", "2"}));
  (void)runs_->finish(
      capture("experts", "replayed", {"--role", "learner", "--tokens", runs_->text("drawn")}));
  EXPECT_EQ(document("drawn", "replayed", 0)["differing_bits"], 0);
  refused(again("experts", "none", "learner", {"--expert-ranks", "5"}), {"--expert-ranks 5", "has 4"});
  refused(again("dense", "none", "learner", {"--expert-ranks", "2"}), {"--expert-ranks 2", "has 0"});
}

/// What another program could have written of a real capture: experts in any placement, rows without
/// experts, captures from before norms showed their inputs.
TEST_F(CaptureVerb, ARealCaptureSpreadByHandComparesToo) {
  const diagnostics::Capture real(*runs_ / "experts.sampler");
  const auto said = [](test_support::HandCapture& c, int exit_code) {
    const CommandResult result =
        run_minite({"compare", runs_->text("experts.sampler"), c.write("hand").string(), "--json"});
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return json::parse(result.out);
  };
  test_support::HandCapture spread;
  spread.load(real);
  spread.shard({{3, 0}, {2}, {1, 2}});
  EXPECT_EQ(said(spread, 0)["expert_ranks"], (json{1, 3}));

  test_support::HandCapture missing;
  missing.load(real);
  missing.shard({{3, 0}, {2, 1}});
  std::vector<std::string> names;
  for (const auto& t : missing.m.tensors) {
    if (t.rank == 1) names.push_back(t.name);
  }
  for (const std::string& name : names) missing.remove(name, 1);
  const json one = said(missing, 0);
  int64_t absent = 0;
  for (const json& layer : one["experts"]) absent += layer["absent_pairs"][1].get<int64_t>();
  EXPECT_GT(absent, 0);
  EXPECT_TRUE(
      holds(run_minite({"compare", runs_->text("experts.sampler"), missing.write("hand").string()}).out,
            std::to_string(absent) + " (row, expert) pairs were not compared"));

  test_support::HandCapture before;
  before.load(real);
  for (const std::string name : {"layers.0.attn_norm.input", "layers.0.mlp_norm.input",
                                 "layers.1.attn_norm.input", "layers.1.mlp_norm.input", "final_norm.input"})
    before.remove(name);
  EXPECT_EQ(said(before, 0)["not_compared"].size(), 5u);
}

/// The inputs of norms are the residual stream: what came in, then plus what each branch gave.
TEST_F(CaptureVerb, InputsOfNormsAreTheResidualStream) {
  for (const std::string run : {"dense", "experts"}) {
    const diagnostics::Capture c(*runs_ / (run + ".sampler"));
    const auto values = [&](const std::string& name) { return c.values<bf16>(name, io::StoredType::bf16); };
    const auto sum = [](std::vector<bf16> x, const std::vector<bf16>& y) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = bf16(static_cast<float>(x[i]) + static_cast<float>(y[i]));
      return x;
    };
    const auto expect_bits = [](const std::vector<bf16>& a, const std::vector<bf16>& b) {
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i].bits, b[i].bits) << i;
    };
    std::vector<bf16> x = values("embed.output");
    for (const std::string layer : {"layers.0.", "layers.1."}) {
      expect_bits(values(layer + "attn_norm.input"), x);
      x = sum(x, values(layer + "o.output"));
      expect_bits(values(layer + "mlp_norm.input"), x);
      x = sum(x, values(layer + (run == "dense" ? "down.output" : "combine.output")));
    }
    // The final norm reads the rows that are scored; the row at p scores the token at p + 1.
    const size_t cols = x.size() / c.rows().size();
    std::vector<bf16> scored;
    for (const diagnostics::RowId& id : c.scored()) {
      const auto at = std::ranges::find_if(c.rows(), [&](const diagnostics::RowId& r) {
        return r.request == id.request && r.sample == id.sample && r.position + 1 == id.position;
      });
      const auto begin = x.begin() + (at - c.rows().begin()) * static_cast<std::ptrdiff_t>(cols);
      scored.insert(scored.end(), begin, begin + static_cast<std::ptrdiff_t>(cols));
    }
    expect_bits(values("final_norm.input"), scored);
  }
}

TEST_F(CaptureVerb, RolloutsOfARunNameTheWeightsAndTheExperts) {
  const auto rows = test_support::json_lines(*runs_ / "dense/rollouts.jsonl");
  ASSERT_EQ(rows.size(), static_cast<size_t>(test_support::kTinyRl));
  const auto metrics = test_support::json_lines(*runs_ / "dense/metrics.jsonl");
  std::set<std::string> weights, tokens;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["global_step"], metrics[test_support::kTinySft + i]["global_step"]);
    EXPECT_EQ(rows[i]["stage"], "rl");
    EXPECT_EQ(rows[i]["responses"], 64);
    EXPECT_EQ(rows[i]["contract"]["weight_version"], i);
    weights.insert(rows[i]["contract"]["weights_digest"]);
    tokens.insert(rows[i]["tokens_digest"]);
  }
  EXPECT_EQ(weights.size(), rows.size());
  EXPECT_EQ(tokens.size(), rows.size());
  // The first step draws with the weights that the supervised steps left: those of their checkpoint.
  Arguments first = {"capture",  runs_->checkpoint("dense", test_support::kTinySft).string(),
                     "-o",       runs_->text("first"),
                     "--recipe", "nvfp4_per_token",
                     "--role",   "sampler",
                     "--data",   runs_->text("data.jsonl"),
                     "--json"};
  const json said = json::parse(runs_->finish(first).out);
  EXPECT_EQ(said["contract"]["weights_digest"], rows[0]["contract"]["weights_digest"]);
}

TEST_F(CaptureVerb, BadInputIsNamed) {
  refused(capture("dense", "none", {"--role", "sampler"}), {"--data", "--tokens"});
  refused(capture("dense", "none", {"--role", "learner", "--data", runs_->text("data.jsonl")}),
          {"learner", "--tokens"});
  refused(again("dense", "none", "learner", {"--inject", "shifted"}), {"unknown fault 'shifted'", "shift,"});
  refused(again("dense", "none", "learner", {"--inject", "shift,shift"}), {"--inject shift", "twice"});
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
