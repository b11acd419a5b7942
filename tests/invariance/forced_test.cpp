// Teacher forcing through the sampler's own prefill and decode gives the bits that sampling recorded.
#include <algorithm>

#include "invariance/invariance.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class Forced : public RecipeTest {};
MINITE_RECIPES(Forced, Which::row_local);

std::vector<std::vector<int32_t>> tokens_of(const std::vector<Sample>& samples) {
  std::vector<std::vector<int32_t>> responses;
  for (const Sample& s : samples) responses.push_back(s.tokens);
  return responses;
}

/// Samples with many slots, scores with few, so that every decode batch is another one.
void check_forced(const ModelConfig& config, const std::string& recipe, KvFormat kv) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 6);
  weights.set_kv_scales(uneven_kv_scales(config));
  const auto requests = requests_of({1, 66, 17, 3, 50, 63}, config.vocab_size);
  SampleParams params;
  params.max_new_tokens = 9;
  params.temperature = 0.8f;
  params.seed = 3;
  Sides drawing(weights, {.recipe = recipe, .learner = {192, 192}, .kv = kv});
  const auto samples = drawing.sampler.generate(requests, params);
  for (const int64_t slots : {1, 4}) {
    Sides scoring(weights, {.recipe = recipe, .sampler = {slots, 192, 16}, .learner = {192, 192}, .kv = kv});
    const auto scored = scoring.sampler.score(requests, tokens_of(samples), params.temperature);
    EXPECT_TRUE(same_bits(scored, samples)) << slots << " slots";
  }
}

TEST_P(Forced, EqualsWhatSamplingRecorded) {
  check_forced(tiny_config(32, false), GetParam(), KvFormat::bf16);
  check_forced(tiny_config(24, true), GetParam(), KvFormat::fp8);
}
TEST_P(Forced, EqualsWhatSamplingRecordedWithExperts) {
  check_forced(tiny_experts(32, false), GetParam(), KvFormat::bf16);
}

TEST_P(Forced, EqualsWhatSamplingRecordedWithoutNormsOnHeads) {
  check_forced(tiny_llama(24, true), GetParam(), KvFormat::bf16);
  check_forced(tiny_llama(32, false), GetParam(), KvFormat::fp8);
}

TEST(ForcedTokens, TakeTheExpertsThatDrawingTook) {
  const ModelConfig config = tiny_experts(32, false);
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 6);
  const auto requests = requests_of({1, 66, 17}, config.vocab_size);
  SampleParams params;
  params.max_new_tokens = 9;
  params.return_routed_experts = true;
  Sides drawing(weights, {.recipe = "nvfp4_per_token", .learner = {192, 192}});
  Sides scoring(weights, {.recipe = "nvfp4_per_token", .sampler = {1, 192, 16}, .learner = {192, 192}});
  const auto samples = drawing.sampler.generate(requests, params);
  const auto scored = scoring.sampler.score(requests, tokens_of(samples), {1.0f, true});
  for (size_t i = 0; i < samples.size(); ++i) {
    const RouteDifference d = compare_routes(scored[i].routes, samples[i].routes);
    EXPECT_GT(d.rows, 0);
    EXPECT_EQ(d.experts + d.order, 0);
    EXPECT_EQ(d.weight_abs_max, 0.0);
  }
  EXPECT_TRUE(scoring.sampler.score(requests, tokens_of(samples), 1.0f)[0].routes.expert.empty());
}

TEST(ForcedTokens, AnyTokensAreScoredAsTheLearnerScoresThem) {
  ModelConfig config = tiny_config();
  config.eos_token_id = 7;
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 9);
  Sides sides(weights, {.recipe = "nvfp4_per_token", .sampler = {2, 80, 64}});
  const auto requests = requests_of({4, 70, 1}, config.vocab_size);
  std::vector<std::vector<int32_t>> responses;
  for (uint64_t i = 0; i < 3; ++i) responses.push_back(random_tokens(10, config.vocab_size, 5, i));
  responses[0][4] = responses[1][9] = 7;  // <eos> inside and at the end
  const auto scored = sides.sampler.score(requests, responses, 1.5f);
  EXPECT_EQ(tokens_of(scored), responses);
  EXPECT_FALSE(scored[0].finished);
  EXPECT_TRUE(scored[1].finished);
  EXPECT_TRUE(same_bits(scores_of(scored), score(sides.learner, sequences_of(requests, scored), 1.5f)));
}

}  // namespace
}  // namespace minite::invariance
