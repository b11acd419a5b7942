// The main job, whole: `minite rl --preset demo` and demo-moe learn, with a gap of exactly 0 between learner
// and sampler in every step, and their mismatched contrast shows one. Each takes about a minute on two cores;
// bits do not depend on the machine, so neither do these numbers.
#include <gtest/gtest.h>

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

TEST(Demo, LearnsWithoutAGap) {
  if (const std::string why = obstacle(); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  const json summary = run_demo(folder, "demo", "nvfp4_per_token");
  ASSERT_FALSE(summary.is_null());
  EXPECT_GT(summary.at("contrast_gap_mean").get<double>(), 0.005);
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
