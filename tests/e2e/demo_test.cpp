// The main job, whole: `minite rl --preset demo` and demo-moe learn, with a gap of exactly 0 between learner
// and sampler in every step, and their mismatched contrast shows one. Each takes about a minute on two cores;
// bits do not depend on the machine, so neither do these numbers.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/tiny_run.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::json_lines;
using test_support::run_minite;
using test_support::slurp;
using test_support::TempFolder;

/// Why the demos cannot be run here; empty when they can.
std::string obstacle() {
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
  return "the whole demo is run by optimised builds only";
#endif
  const json doctor = json::parse(run_minite({"doctor", "--json"}).out);
  for (const json& backend : doctor.at("backends")) {
    if (backend.at("name") == "simd" && backend.at("available").get<bool>()) return "";
  }
  return "the reference backend would take hours";
}

/// Runs the preset in `folder` and checks what every demo promises; null when the run fails.
json run_demo(const TempFolder& folder, const std::string& preset, const std::string& recipe) {
  const auto result = run_minite({"rl", "--preset", preset, "-o", (folder / preset).string(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  if (result.exit_code != 0) return nullptr;
  json summary = json::parse(result.out);
  EXPECT_LE(summary.at("reward_first").get<double>(), 0.6);
  EXPECT_GE(summary.at("reward_last").get<double>(), 0.85);
  EXPECT_EQ(summary.at("gap_max").get<double>(), 0.0);
  EXPECT_EQ(summary.at("learner_recipe"), recipe);
  EXPECT_EQ(summary.at("sampler_recipe"), recipe);
  EXPECT_NE(slurp(folder / (preset + "/report.html")).find("exactly 0 at every step"), std::string::npos);
  return summary;
}

using Arguments = std::vector<std::string>;

/// `minite gap` on 64 prompts; its rows by "learner/sampler/keys and values of the sampler".
std::map<std::string, json> gaps(const TempFolder& folder, const std::string& checkpoint, Arguments more,
                                 int exit_code) {
  const std::string data = (folder / "test.jsonl").string();
  EXPECT_EQ(run_minite({"tasks", "make", "addition", "-n", "64", "--seed", "2", "-o", data}).exit_code, 0);
  Arguments all = {"gap", (folder / checkpoint).string(), "--data", data, "--json", "--expect", "0"};
  all.insert(all.end(), more.begin(), more.end());
  const auto result = run_minite(all);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  std::map<std::string, json> rows;
  const json document = json::parse(result.out);
  for (const json& row : document["rows"]) {
    std::string key;
    for (const char* name : {"learner", "sampler", "kv_cache"})
      key += (key.empty() ? "" : "/") + row[name].get<std::string>();
    rows[key] = row;
  }
  return rows;
}

/// Whether gaps are 0 shows on a few hundred tokens; how they compare takes thousands.
const Arguments kFewTokens = {"--problems", "12", "--samples", "2"};

/// What holds on every trained checkpoint: sides that agree have a gap of exactly 0, others have one.
void check_gaps(const TempFolder& folder, const std::string& checkpoint, const std::string& replay) {
  SCOPED_TRACE(checkpoint + " " + replay);
  const std::string all = "nvfp4_w4a16,nvfp4_w4a8_mxfp8,nvfp4_per_token,bf16";
  Arguments more = kFewTokens;
  more.insert(more.end(), {"--learner", all, "--sampler", all, "--router-replay", replay});
  const auto grid = gaps(folder, checkpoint, more, 1);
  ASSERT_EQ(grid.size(), 16u);
  for (const auto& [cell, row] : grid) {
    const bool matched = row["learner"] == row["sampler"];
    EXPECT_EQ(row["mean_abs_gap"] == 0.0, matched) << cell;
    EXPECT_EQ(row["max_abs_gap"] == 0.0, matched) << cell;
    EXPECT_EQ(row["causes"].empty(), matched) << cell;
  }
}

/// Keys and values of the sampler alone in FP8, with the recipes of the run.
void check_kv_gaps(const TempFolder& folder, const std::string& checkpoint) {
  SCOPED_TRACE(checkpoint);
  EXPECT_EQ(gaps(folder, checkpoint, kFewTokens, 0).size(), 1u);
  Arguments more = kFewTokens;
  more.insert(more.end(),
              {"--sampler", "nvfp4_per_token", "--learner", "nvfp4_per_token", "--kv-cache", "bf16,fp8"});
  auto rows = gaps(folder, checkpoint, more, 1);
  EXPECT_EQ(rows["nvfp4_per_token/nvfp4_per_token/bf16"]["max_abs_gap"], 0.0);
  const json& fp8 = rows["nvfp4_per_token/nvfp4_per_token/fp8"];
  EXPECT_GT(fp8["mean_abs_gap"], 0.0);
  EXPECT_EQ(fp8["causes"][0]["field"], "kv_format");
}

/// The order of the technical report's Table 2: the fewer bits of the sampler's activations, the larger.
void check_order(const TempFolder& folder, const std::string& checkpoint) {
  SCOPED_TRACE(checkpoint);
  auto rows =
      gaps(folder, checkpoint,
           {"--learner", "nvfp4_w4a16,bf16", "--sampler", "nvfp4_w4a16,nvfp4_w4a8_mxfp8,nvfp4_per_token"}, 1);
  const auto mean = [&](const std::string& cell) {
    return rows[cell + "/bf16"]["mean_abs_gap"].get<double>();
  };
  EXPECT_EQ(mean("nvfp4_w4a16/nvfp4_w4a16"), 0.0);
  EXPECT_GT(mean("nvfp4_w4a16/nvfp4_w4a8_mxfp8"), 0.0);
  EXPECT_LT(mean("nvfp4_w4a16/nvfp4_w4a8_mxfp8"), mean("nvfp4_w4a16/nvfp4_per_token"));
  EXPECT_LT(mean("bf16/nvfp4_w4a16"), mean("bf16/nvfp4_per_token"));
}

TEST(Demo, LearnsWithoutAGap) {
  if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  const json summary = run_demo(folder, "demo", "nvfp4_per_token");
  ASSERT_FALSE(summary.is_null());
  EXPECT_GT(summary.at("contrast_gap_mean").get<double>(), 0.005);
  for (const std::string checkpoint : {"demo/checkpoints/step_000280", "demo/checkpoints/step_000560"}) {
    check_gaps(folder, checkpoint, "off");
    check_kv_gaps(folder, checkpoint);
  }
  check_order(folder, "demo/checkpoints/step_000560");
}

TEST(DemoMoe, LearnsWithoutAGap) {
  if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  const json summary = run_demo(folder, "demo-moe", "nvfp4_per_expert_bf16_bwd");
  ASSERT_FALSE(summary.is_null());
  EXPECT_GT(summary.at("contrast_gap_mean").get<double>(), 0.001);
  const auto steps = json_lines(folder / "demo-moe/metrics.jsonl");
  ASSERT_FALSE(steps.empty());
  // Every expert of every layer is in use, and none has taken over.
  EXPECT_EQ(steps.back().at("experts_idle").get<double>(), 0.0);
  EXPECT_LT(steps.back().at("expert_load_max").get<double>(), 3.0) << "4 is an expert that gets every token";
  for (const std::string checkpoint :
       {"demo-moe/checkpoints/step_000280", "demo-moe/checkpoints/step_000480"}) {
    check_gaps(folder, checkpoint, "off");
    check_kv_gaps(folder, checkpoint);
  }
  check_gaps(folder, "demo-moe/checkpoints/step_000480", "R3");
}

/// Both sides route alike already, so a learner that takes the sampler's experts computes the same bits.
TEST(DemoMoe, RouterReplayChangesNothing) {
  if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  for (const std::string mode : {"off", "R3"}) {
    const auto result =
        run_minite({"rl", "--preset", "demo-moe", "--router-replay", mode, "--set", "sft.steps=40",
                    "rl.steps=8", "contrast.steps=0", "-o", (folder / mode).string(), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json summary = json::parse(result.out);
    EXPECT_EQ(summary.at("gap_max").get<double>(), 0.0) << mode;
    EXPECT_EQ(summary.at("contract").at("router_replay"), mode);
  }
  EXPECT_TRUE(test_support::same_files(folder / "off/checkpoints", folder / "R3/checkpoints"));
}

}  // namespace
}  // namespace minite
