// Cells of a grid of gaps: tokens without a finite log-prob, and why two sides differ.
#include <cmath>

#include "rl/gap_grid.h"
#include "rl_support.h"
#include "support/tiny_model.h"

namespace minite::rl {
namespace {

TEST(GapCell, NonFiniteTokensSpoilTheMeanAndAreCounted) {
  const std::vector<int64_t> offsets = {0, 2, 4};
  const std::vector<double> advantage(4, 1.0);
  const std::vector<double> sampler = {-1.0, -1.0, -1.0, -1.0};
  std::vector<double> learner = {-1.5, -1.0, -1.0, -1.0};
  const GapCell finite = gap_cell(offsets, learner, sampler, advantage, {});
  EXPECT_EQ(finite.abs_mean, 0.125);
  EXPECT_EQ(finite.abs_max, 0.5);
  EXPECT_DOUBLE_EQ(finite.q05, -0.425) << "learner minus sampler";
  EXPECT_EQ(finite.non_finite, 0);
  learner[3] = std::nan("");
  const GapCell cell = gap_cell(offsets, learner, sampler, advantage, {});
  EXPECT_TRUE(std::isnan(cell.abs_mean) && std::isnan(cell.abs_max) && std::isnan(cell.q05));
  EXPECT_EQ(cell.tokens, 4);
  EXPECT_EQ(cell.non_finite, 1);
  ASSERT_TRUE(cell.details);
  EXPECT_EQ(cell.details->responses[1].tokens, 1);
  const std::vector<double> nothing(4, std::nan(""));
  EXPECT_FALSE(gap_cell(offsets, nothing, nothing, advantage, {}).details);
}

/// "FIELD,FIELD" of the causes between two sides.
std::string fields(const GapSide& learner, const GapSide& sampler, const RunConfig& config = {}) {
  std::string text;
  for (const GapCause& cause : gap_causes(test_support::tiny_config(), config, learner, sampler))
    text += (text.empty() ? "" : ",") + cause.field;
  return text;
}

TEST(GapCause, NamesTheFieldsThatDiffer) {
  EXPECT_EQ(fields({"bf16"}, {"nvfp4_per_token"}), "activations,weights");
  EXPECT_EQ(fields({"nvfp4_w4a16"}, {"nvfp4_w4a8_mxfp8"}), "activations");
  EXPECT_EQ(fields({"bf16"}, {"nvfp4_w4a16"}), "weights");
  EXPECT_EQ(fields({"mxfp8"}, {"mxfp8", KvFormat::fp8}), "kv_format");
  EXPECT_EQ(fields({"bf16"}, {"nvfp4_w4a16", KvFormat::fp8}), "weights,kv_format");
}

TEST(GapCause, BackwardFormatsAreNoCause) {
  EXPECT_EQ(fields({"nvfp4_per_token"}, {"nvfp4_per_token_bf16_bwd"}), "execution");
}

TEST(GapCause, RulesAreAppliedToBothSides) {
  RunConfig config;
  config.rules = "rules:\n  - {match: \"layers.*\", recipe: bf16}\n";
  EXPECT_EQ(fields({"bf16"}, {"nvfp4_per_token"}, config), "execution");
  config.rules = "rules:\n  - {match: \"layers.*\", layers: [0], recipe: bf16}\n";
  const auto causes = gap_causes(test_support::tiny_config(), config, {"bf16"}, {"nvfp4_w4a16"});
  ASSERT_EQ(causes.size(), 1u);
  EXPECT_EQ(causes[0].text,
            "bf16 at the learner, nvfp4[te,outer=row] at the sampler in 4 of 9 linear layers");
}

TEST(GapCause, AScaleThatSpansTokensIsNamedWithItsPolicy) {
  RunConfig config;
  config.sampler_policy = "fastest";
  const auto causes =
      gap_causes(test_support::tiny_config(), config, {"nvfp4_per_tensor"}, {"nvfp4_per_tensor"});
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[0].field, "scale_domain");
  EXPECT_NE(causes[0].text.find("policy fastest"), std::string::npos);
}

}  // namespace
}  // namespace minite::rl
