// minite gap on the checkpoint of a tiny run: which cells are 0, which are not and why.
#include <cmath>
#include <map>
#include <utility>

#include "support/tiny_run.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::run_minite;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;
using test_support::TinyRuns;
using Arguments = std::vector<std::string>;

/// The checkpoint of a dense run, made once a process.
class GapVerb : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    runs_ = std::make_unique<TinyRuns>();
    (void)runs_->finish(runs_->start("dense", {"--set", "contrast.steps=0"}));
    std::string problems;
    for (int i = 1; i < 7; ++i)
      problems +=
          R"({"prompt":")" + std::to_string(i) + R"(+2=","answer":")" + std::to_string(i + 2) + "\"}\n";
    spill(*runs_ / "data.jsonl", problems);
  }
  static void TearDownTestSuite() { runs_.reset(); }

  static Arguments arguments(const std::string& run, const Arguments& more) {
    Arguments all = {
        "gap", runs_->checkpoint(run, 14).string(), "--data", runs_->text("data.jsonl"), "--max-new-tokens",
        "8"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static CommandResult run(const std::string& run, const Arguments& more) {
    return run_minite(arguments(run, more));
  }
  /// The document of a grid that may fail `--expect`.
  static json document(const std::string& of, Arguments more, int exit_code = 0) {
    more.emplace_back("--json");
    const CommandResult result = run(of, more);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return json::parse(result.out);
  }
  /// The checkpoint of a run with experts, made once.
  static const char* experts() {
    static bool made = false;
    auto settings = test_support::tiny_expert_settings();
    settings.insert(settings.end(), {"--set", "contrast.steps=0"});
    if (!std::exchange(made, true)) (void)runs_->finish(runs_->start("experts", settings));
    return "experts";
  }
  /// Mean gap by "learner/sampler".
  static std::map<std::string, double> means(const json& document) {
    std::map<std::string, double> all;
    for (const json& row : document["rows"]) {
      all[row["learner"].get<std::string>() + "/" + row["sampler"].get<std::string>()] =
          row["mean_abs_gap"].get<double>();
    }
    return all;
  }
  static void expect_refused(const Arguments& all, const Arguments& parts, int exit_code = 2) {
    const CommandResult result = run_minite(all);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts)
      EXPECT_TRUE(holds(result.err, part)) << part << " in " << result.err;
  }

  static std::unique_ptr<TinyRuns> runs_;
};
std::unique_ptr<TinyRuns> GapVerb::runs_;

TEST_F(GapVerb, MatchedPairsAreZeroAndMixedPairsAreOrdered) {
  const std::string all = "nvfp4_w4a16,nvfp4_w4a8_mxfp8,nvfp4_per_token,bf16";
  for (const char* run : {"dense", experts()}) {
    auto gap = means(document(run, {"--learner", all, "--sampler", all}));
    ASSERT_EQ(gap.size(), 16u);
    for (const auto& [cell, mean] : gap) {
      const bool matched = cell.substr(0, cell.find('/')) == cell.substr(cell.find('/') + 1);
      EXPECT_EQ(mean == 0.0, matched) << run << " " << cell << " " << mean;
    }
    EXPECT_LT(gap["nvfp4_w4a16/nvfp4_w4a8_mxfp8"], gap["nvfp4_w4a16/nvfp4_per_token"]) << run;
    EXPECT_LT(gap["bf16/nvfp4_w4a16"], gap["bf16/nvfp4_per_token"]) << run;
  }
}

TEST_F(GapVerb, TheRunsOwnRecipesAreTheDefault) {
  const json own = document("dense", {"--expect", "0"});
  ASSERT_EQ(own["rows"].size(), 1u);
  EXPECT_EQ(own["rows"][0]["learner"], "nvfp4_per_token");
  EXPECT_EQ(own["rows"][0]["max_abs_gap"], 0.0);
  EXPECT_EQ(own["rows"][0]["causes"], json::array());
  EXPECT_EQ(own["expect"]["ok"], true);
  EXPECT_EQ(own["redrawn_tokens"], 0);
  EXPECT_EQ(own["responses"], 24);
  // Without a run around it a checkpoint gets the grid of Table 1.
  const TempFolder folder;
  std::filesystem::copy(runs_->checkpoint("dense", 14), folder / "model");
  const CommandResult result =
      run_minite({"gap", (folder / "model").string(), "--data", runs_->text("data.jsonl"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(means(json::parse(result.out)).size(), 4u);
}

TEST_F(GapVerb, MatchedSidesAreZeroAtEveryTemperature) {
  for (const char* temperature : {"0", "0.7", "1.5"}) {
    const json grid = document("dense", {"--temperature", temperature, "--expect", "0"});
    EXPECT_EQ(grid["redrawn_tokens"], 0) << temperature;
  }
}

TEST_F(GapVerb, RulesApplyToBothSides) {
  spill(*runs_ / "rules.yaml", "rules:\n  - {match: \"layers.*\", recipe: bf16}\n");
  const Arguments mixed = {"--learner", "bf16", "--sampler", "nvfp4_per_token", "--expect", "0"};
  EXPECT_EQ(run("dense", mixed).exit_code, 1);
  Arguments ruled = mixed;
  ruled.insert(ruled.end(), {"--rules", runs_->text("rules.yaml")});
  EXPECT_EQ(run("dense", ruled).exit_code, 0) << "no layer is left to differ";
}

TEST_F(GapVerb, RowsHoldTheKeysOfTheContract) {
  const json grid = document("dense", {"--learner", "bf16", "--sampler", "nvfp4_per_token"});
  const json& row = grid["rows"][0];
  for (const char* key :
       {"learner", "sampler", "kv_cache", "learner_kv", "router_replay", "router_mismatch", "mean_abs_gap",
        "max_abs_gap", "q05", "q01", "tokens", "non_finite_tokens", "causes", "report", "details"})
    EXPECT_TRUE(row.contains(key)) << key;
  for (const char* key : {"quantiles", "above", "negative_depth", "regions", "tail", "segments",
                          "concentration", "responses", "outliers"})
    EXPECT_TRUE(row["details"].contains(key)) << key;
  EXPECT_LE(row["q01"].get<double>(), row["q05"].get<double>());
  EXPECT_EQ(row["tokens"], grid["tokens"]);
  EXPECT_EQ(row["report"][0]["mean_abs_gap"], 0.169);
  EXPECT_FALSE(grid.contains("expect"));
}

TEST_F(GapVerb, ExpectExitsWith1AndNamesTheCause) {
  const auto mixed =
      run("dense", {"--learner", "bf16", "--sampler", "bf16,nvfp4_per_token", "--expect", "0"});
  EXPECT_EQ(mixed.exit_code, 1);
  for (const char* part : {"--expect 0", "bf16 / nvfp4_per_token: max |gap|",
                           "activations: bf16 at the learner", "weights: bf16 at the learner"})
    EXPECT_TRUE(holds(mixed.err, part)) << part << " in " << mixed.err;
  EXPECT_FALSE(holds(mixed.err, "bf16 / bf16")) << "the matched cell holds";
  const json json_too = document("dense", {"--learner", "bf16", "--expect", "0"}, 1);
  EXPECT_EQ(json_too["expect"]["ok"], false);
  EXPECT_EQ(json_too["expect"]["failed"][0]["sampler"], "nvfp4_per_token");
  EXPECT_EQ(run("dense", {"--learner", "bf16", "--expect", "100"}).exit_code, 0);
}

TEST_F(GapVerb, Fp8KeysAndValuesOfTheSamplerAloneShow) {
  const json grid = document("dense", {"--kv-cache", "bf16,fp8", "--expect", "0"}, 1);
  ASSERT_EQ(grid["rows"].size(), 2u);
  EXPECT_EQ(grid["rows"][0]["mean_abs_gap"], 0.0);
  EXPECT_EQ(grid["rows"][1]["kv_cache"], "fp8");
  EXPECT_GT(grid["rows"][1]["mean_abs_gap"], 0.0);
  EXPECT_EQ(grid["rows"][1]["causes"][0]["field"], "kv_format");
  const json both = document("dense", {"--kv-cache", "fp8", "--learner-kv", "fp8", "--expect", "0"});
  EXPECT_EQ(both["rows"][0]["mean_abs_gap"], 0.0);
}

/// Rows by mode of router replay.
std::map<std::string, std::vector<json>> by_mode(const json& document) {
  std::map<std::string, std::vector<json>> rows;
  for (const json& row : document["rows"]) rows[row["router_replay"]].push_back(row);
  return rows;
}

TEST_F(GapVerb, ReplayedExpertsAreThoseOfTheCellsSampler) {
  const std::string all = "nvfp4_w4a16,nvfp4_per_token,bf16";
  const TempFolder folder;
  const std::string file = (folder / "tokens.json").string();
  const json grid = document(
      experts(), {"--learner", all, "--sampler", all, "--router-replay", "off,R2,R3", "--tokens-json", file});
  EXPECT_EQ(grid["router_replay"], (json{"off", "R2", "R3"}));
  auto rows = by_mode(grid);
  ASSERT_EQ(rows["off"].size(), 9u);
  ASSERT_EQ(rows["R3"].size(), 9u);
  int differ = 0;
  for (size_t i = 0; i < 9; ++i) {
    json off = rows["off"][i], r2 = rows["R2"][i];
    const json& r3 = rows["R3"][i];
    // Whichever sampler drew the tokens: a matched learner that takes another's experts would have a gap.
    const bool matched = off["learner"] == off["sampler"];
    for (const json& row : {off, r3}) {
      EXPECT_EQ(row["max_abs_gap"] == 0.0, matched) << row["learner"] << " / " << row["sampler"];
      EXPECT_EQ(row["router_mismatch"] == 0.0, matched) << row["learner"] << " / " << row["sampler"];
    }
    EXPECT_EQ(r3["sampler"], off["sampler"]);
    differ += r3["mean_abs_gap"] != off["mean_abs_gap"] ? 1 : 0;
    off.erase("router_replay"), r2.erase("router_replay");
    EXPECT_EQ(off, r2) << "R2 replays in updates only";
  }
  EXPECT_EQ(differ, 6) << "routing is a part of every gap";
  const json tokens = json::parse(slurp(file));
  ASSERT_EQ(tokens["learners"].size(), 15u);  // of each recipe off, R2, and R3 with each sampler
  EXPECT_FALSE(tokens["learners"][1].contains("experts_of"));
  for (size_t s = 0; s < 3; ++s) EXPECT_EQ(tokens["learners"][2 + s]["experts_of"], s);
  EXPECT_EQ(tokens["learners"][2]["router_replay"], "R3");
  const CommandResult text = run(experts(), {"--learner", "bf16", "--router-replay", "R3", "--expect", "0"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_TRUE(holds(text.out, "other experts")) << text.out;
  EXPECT_TRUE(holds(text.err, "bf16 / nvfp4_per_token, R3: max |gap|")) << text.err;
}

TEST_F(GapVerb, ReplayOfTheRunIsTheDefaultAndNeedsExperts) {
  auto settings = test_support::tiny_expert_settings();
  settings.insert(settings.end(), {"--set", "contrast.steps=0", "--router-replay", "R3"});
  (void)runs_->finish(runs_->start("replayed", settings));
  const json own = document("replayed", {"--expect", "0"});
  EXPECT_EQ(own["rows"][0]["router_replay"], "R3");
  const json dense = document("dense", {});
  EXPECT_EQ(dense["rows"][0]["router_replay"], "off");
  EXPECT_TRUE(dense["rows"][0]["router_mismatch"].is_null());
  expect_refused(arguments("dense", {"--router-replay", "R3"}), {"R3", "the model has none"});
  expect_refused(arguments(experts(), {"--router-replay", "R4"}), {"R4", "off, R2, R3"});
  expect_refused(arguments(experts(), {"--router-replay", "R3,R3"}), {"R3 is named twice"});
}

TEST_F(GapVerb, ABatchWideScaleIsRefusedByPolicyAndNamedUnderAnother) {
  const Arguments per_tensor = {"--learner",        "nvfp4_per_tensor", "--sampler",
                                "nvfp4_per_tensor", "--expect",         "0"};
  expect_refused(arguments("dense", per_tensor), {"layers.0", "batch_invariant"});
  Arguments fastest = per_tensor;
  fastest.insert(fastest.end(), {"--sampler-policy", "fastest"});
  const json grid = document("dense", fastest, 1);
  EXPECT_GT(grid["rows"][0]["max_abs_gap"], 0.0);
  EXPECT_EQ(grid["rows"][0]["causes"][0]["field"], "scale_domain");
}

TEST_F(GapVerb, LogProbsThatAreNotFiniteAreShownAndFail) {
  const Arguments sim = {"--learner", "nvfp4_w4a16", "--sampler", "nvfp4_w4a16,sim_e2m1,sim_e5m1",
                         "--expect",  "10"};
  const json grid = document("dense", sim, 1);
  EXPECT_GT(grid["rows"][1]["mean_abs_gap"], 0.0);
  const json& nan = grid["rows"][2];
  EXPECT_TRUE(nan["mean_abs_gap"].is_null());
  EXPECT_EQ(nan["mean_abs_gap_nonfinite"], "nan");
  EXPECT_EQ(nan["non_finite_tokens"], nan["tokens"]);
  EXPECT_EQ(grid["expect"]["failed"].size(), 1u);
  expect_refused(arguments("dense", {"--sampler", "sim_e5m1"}), {"first sampler", "sim_e5m1", "--sampler"},
                 3);
}

TEST_F(GapVerb, TokensGiveTheRowsAgain) {
  const TempFolder folder;
  const std::string file = (folder / "tokens.json").string();
  const json grid = document(
      "dense", {"--learner", "bf16,nvfp4_per_token", "--sampler", "bf16,nvfp4_w4a16", "--tokens-json", file});
  const json tokens = json::parse(slurp(file));
  ASSERT_EQ(tokens["learners"].size(), 2u);
  ASSERT_EQ(tokens["samplers"].size(), 2u);
  for (size_t cell = 0; cell < 4; ++cell) {
    double sum = 0, count = 0;
    for (const json& sequence : tokens["sequences"]) {
      EXPECT_TRUE(sequence["prompt"].get<std::string>().ends_with("+2="));
      for (const json& token : sequence["tokens"]) {
        sum += std::abs(token["learner"][cell / 2].get<double>() - token["sampler"][cell % 2].get<double>());
        ++count;
      }
    }
    EXPECT_DOUBLE_EQ(sum / count, grid["rows"][cell]["mean_abs_gap"].get<double>()) << cell;
  }
  const auto page =
      test_support::run_minite({"explore", "--tokens", file, "-o", (folder / "page.html").string()});
  EXPECT_EQ(page.exit_code, 0) << "the explorer reads the file: " << page.err;
}

TEST_F(GapVerb, TheSameBytesForAnyThreadsAndBackend) {
  const Arguments grid = {"--learner", "bf16", "--sampler", "nvfp4_per_token,bf16", "--json"};
  const auto with = [&](const Arguments& more) {
    Arguments all = grid;
    all.insert(all.end(), more.begin(), more.end());
    return run("dense", all).out;
  };
  const std::string one = with({"--threads", "1"});
  EXPECT_EQ(one, with({"--threads", "3"}));
  json ref = json::parse(with({"--backend", "ref", "--problems", "1"}));
  json simd = json::parse(with({"--problems", "1"}));
  EXPECT_EQ(ref["rows"], simd["rows"]);
  EXPECT_EQ(ref["problems"], 1);
}

TEST_F(GapVerb, PagesComeFromTheJsonAndFromTheVerb) {
  const TempFolder folder;
  const auto result = run("dense", {"--learner", "bf16", "--json", "--html", (folder / "a.html").string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  spill(folder / "gap.json", result.out);
  EXPECT_EQ(run_minite({"report", (folder / "gap.json").string()}).exit_code, 0);
  EXPECT_EQ(slurp(folder / "gap.html").size(), slurp(folder / "a.html").size());
  EXPECT_TRUE(holds(slurp(folder / "gap.html"), "Mean |gap|"));
  spill(folder / "other.json", "{}");
  expect_refused({"report", (folder / "other.json").string()}, {"other.json", "minite gap --json"});
  expect_refused({"report", (folder / "gap.json").string(), runs_->text("dense")}, {"page of its own"});
}

TEST_F(GapVerb, TextHoldsTheGridTheSummaryAndTheDetails) {
  const auto text = run("dense", {"--learner", "bf16", "--sampler", "bf16,nvfp4_per_token", "--details"});
  for (const char* part : {"0.169 (Table 1)", "1 of 2 cells are exactly 0",
                           "tails:", "regions:", "segments:", "concentration:", "responses with the largest"})
    EXPECT_TRUE(holds(text.out, part)) << part << " in " << text.out;
}

TEST_F(GapVerb, BadInputIsNamed) {
  expect_refused(arguments("dense", {"--learner", "nvfp4_per_tokn"}), {"nvfp4_per_tokn", "did you mean"});
  expect_refused(arguments("dense", {"--kv-cache", "fp7"}), {"--kv-cache", "fp7"});
  expect_refused(arguments("dense", {"--learner", "bf16,bf16"}), {"learner bf16", "twice"});
  expect_refused(arguments("dense", {"--temperature", "-1"}), {"--temperature"});
  expect_refused({"gap", runs_->text("nowhere"), "--data", runs_->text("data.jsonl")}, {"nowhere"});
  expect_refused({"gap", runs_->checkpoint("dense", 14).string(), "--data", runs_->text("none.jsonl")},
                 {"none.jsonl"});
  spill(*runs_ / "bad.jsonl", "{\"answer\":\"3\"}\n");
  expect_refused({"gap", runs_->checkpoint("dense", 14).string(), "--data", runs_->text("bad.jsonl")},
                 {"bad.jsonl:1", "prompt"});
  spill(*runs_ / "letters.jsonl", "{\"prompt\":\"abc\",\"answer\":\"3\"}\n");
  expect_refused({"gap", runs_->checkpoint("dense", 14).string(), "--data", runs_->text("letters.jsonl")},
                 {"'a'"});
}

}  // namespace
}  // namespace minite
