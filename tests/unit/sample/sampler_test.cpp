#include "sample/sampler.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace minite {
namespace {
using namespace test_support;

/// A model and a sampler of 3 slots and 20 tokens a sequence.
struct Bench {
  Weights weights{tiny_config(), DType::bf16, Purpose::training};
  std::unique_ptr<Sides> sides;

  Bench() {
    fill_strong(weights, 1);
    sides =
        std::make_unique<Sides>(weights, SideOptions{"bf16", &fast_table(), 1, {3, 20, 16}, {64, 20}, {}});
  }
  [[nodiscard]] Sampler& sampler() const { return sides->sampler; }
};

SampleParams tokens(int64_t n) {
  SampleParams p;
  p.max_new_tokens = n;
  return p;
}
std::vector<SampleRequest> prompts(const std::vector<int64_t>& lengths) { return requests_of(lengths, 40); }

TEST(Sampler, RefusesPromptsThatDoNotFit) {
  Bench b;
  expect_error(ErrorCode::invalid_argument, {"prompt 1", "empty"}, [&] {
    (void)b.sampler().generate(prompts({3, 0}), tokens(4));
  });
  expect_error(ErrorCode::invalid_argument, {"prompt 2", "20 tokens", "max_length=20"}, [&] {
    (void)b.sampler().generate(prompts({3, 19, 20}), tokens(4));
  });
  auto bad = prompts({3, 5});
  bad[1].prompt[2] = 40;
  expect_error(ErrorCode::invalid_argument, {"40", "[0, 40)"},
               [&] { (void)b.sampler().generate(bad, tokens(4)); });
}

TEST(Sampler, RefusesParametersOutOfRange) {
  Bench b;
  const auto one = prompts({3});
  const auto refuse = [&](const std::string& part, const SampleParams& p) {
    expect_error(ErrorCode::invalid_argument, {part}, [&] { (void)b.sampler().generate(one, p); });
  };
  refuse("max_new_tokens=0", tokens(0));
  refuse("temperature=-1", {-1.0f, 0, 1.0f, 4, 0});
  refuse("top_k=-2", {1.0f, -2, 1.0f, 4, 0});
  refuse("top_p=0", {1.0f, 0, 0.0f, 4, 0});
  refuse("top_p=1.5", {1.0f, 0, 1.5f, 4, 0});
}

TEST(Sampler, RefusesTokensThatCannotBeScored) {
  Bench b;
  const auto requests = prompts({3, 17});
  const auto refuse = [&](const std::vector<std::string>& parts, std::vector<std::vector<int32_t>> responses,
                          float temperature = 1.0f) {
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { (void)b.sampler().score(requests, responses, temperature); });
  };
  refuse({"1 responses for 2 prompts"}, {{1}});
  refuse({"response 1", "empty"}, {{1}, {}});
  refuse({"prompt 1", "17", "response 4", "max_length=20"}, {{1}, {1, 2, 3, 4}});
  refuse({"token 1 of response 0", "40", "[0, 40)"}, {{1, 40}, {1}});
  refuse({"temperature=0"}, {{1}, {1}}, 0.0f);
  const std::vector<std::vector<int32_t>> one_each = {{1}, {1}};
  expect_error(ErrorCode::invalid_argument, {"return_routed_experts", "num_experts=0"}, [&] {
    (void)b.sampler().score(requests, one_each, {1.0f, true});
  });
  EXPECT_EQ(
      b.sampler().score(requests, std::vector<std::vector<int32_t>>{{1}, {1, 2, 3}}, 1.0f)[1].logp.size(),
      3u);
}

TEST(Sampler, LimitsAreChecked) {
  Bench b;
  const auto build = [&](const SamplerLimits& limits) {
    Sampler(b.sides->network, fast_table(), b.sides->pool, limits);
  };
  expect_error(ErrorCode::invalid_argument, {"max_length=225", "max_position_embeddings=224"}, [&] {
    build({3, 225, 16});
  });
  expect_error(ErrorCode::invalid_argument, {"sequences=0"}, [&] { build({0, 20, 16}); });
  expect_error(ErrorCode::invalid_argument, {"max_length=1"}, [&] { build({3, 1, 16}); });
  expect_error(ErrorCode::invalid_argument, {"prefill_rows=0"}, [&] { build({3, 20, 0}); });
}

TEST(Sampler, ResponsesEndAtTheirLimits) {
  Bench b;
  const auto requests = prompts({1, 19, 12, 17, 5});
  const auto samples = b.sampler().generate(requests, tokens(8));
  const std::vector<size_t> expected = {8, 1, 8, 3, 8};
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].tokens.size(), expected[i]) << i;
    EXPECT_EQ(samples[i].logp.size(), expected[i]) << i;
    EXPECT_EQ(samples[i].entropy.size(), expected[i]) << i;
    EXPECT_FALSE(samples[i].finished);
    EXPECT_EQ(samples[i].weight_version, b.weights.version());
    for (const float x : samples[i].logp) EXPECT_LE(x, 0.0f);
  }
  // A response of the longest length is one that the learner takes.
  EXPECT_EQ(score(b.sides->learner, sequences_of(requests, samples)).logp.size(), 28u);
}

TEST(Sampler, NoRequestsNoSamples) {
  Bench b;
  EXPECT_TRUE(b.sampler().generate({}, tokens(4)).empty());
}

TEST(Sampler, ReportsProgress) {
  Bench b;
  std::vector<int64_t> seen;
  (void)b.sampler().generate(prompts({2, 4, 6, 8, 10, 3, 1}), tokens(3),
                             [&](int64_t done) { seen.push_back(done); });
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), 7);
}

TEST(Sampler, WorksAfterAnError) {
  Bench b;
  const auto requests = prompts({2, 4, 6, 8});
  const auto before = b.sampler().generate(requests, tokens(5));
  auto bad = requests;
  bad[3].prompt[0] = 99;  // fails when the others are on their way
  EXPECT_THROW((void)b.sampler().generate(bad, tokens(5)), Error);
  EXPECT_TRUE(same_bits(b.sampler().generate(requests, tokens(5)), before));
}

TEST(Sampler, SeesNewWeights) {
  Bench b;
  const auto requests = prompts({2, 4});
  const auto before = b.sampler().generate(requests, tokens(5));
  fill_strong(b.weights, 2);
  const auto after = b.sampler().generate(requests, tokens(5));
  EXPECT_GT(after[0].weight_version, before[0].weight_version);
  EXPECT_FALSE(same_bits(before, after));
}

}  // namespace
}  // namespace minite
