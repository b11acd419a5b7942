// The main job, whole: `minite rl --preset demo` learns, with a gap of exactly 0 between learner and sampler
// in every step, and its mismatched contrast shows one. Takes about a minute on two cores; bits do not depend
// on the machine, so neither do these numbers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_command.h"
#include "support/temp_folder.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::run_minite;
using test_support::slurp;
using test_support::TempFolder;

bool vector_backend_runs() {
  const json doctor = json::parse(run_minite({"doctor", "--json"}).out);
  for (const json& backend : doctor.at("backends")) {
    if (backend.at("name") == "simd") return backend.at("available").get<bool>();
  }
  return false;
}

TEST(Demo, LearnsWithoutAGap) {
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
  GTEST_SKIP() << "the whole demo is run by optimised builds only";
#endif
  if (!vector_backend_runs()) GTEST_SKIP() << "the reference backend would take hours";
  const TempFolder folder;
  const std::string run = (folder / "demo").string();
  const auto result = run_minite({"rl", "--preset", "demo", "-o", run, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json summary = json::parse(result.out);
  EXPECT_LE(summary.at("reward_first").get<double>(), 0.6);
  EXPECT_GE(summary.at("reward_last").get<double>(), 0.85);
  EXPECT_EQ(summary.at("gap_max").get<double>(), 0.0);
  EXPECT_GT(summary.at("contrast_gap_mean").get<double>(), 0.005);
  EXPECT_EQ(summary.at("learner_recipe"), "nvfp4_per_token");
  EXPECT_EQ(summary.at("sampler_recipe"), "nvfp4_per_token");
  EXPECT_NE(slurp(folder / "demo/report.html").find("exactly 0 at every step"), std::string::npos);
}

}  // namespace
}  // namespace minite
