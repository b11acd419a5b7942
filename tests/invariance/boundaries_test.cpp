// Every boundary of the forward pass, outputs, codes and scales: the same bytes for a token alone and in any
// batch, by the learner and by the sampler, after other weights were loaded in between, and every time.
#include "support/boundaries.h"

#include "invariance/invariance.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class EveryBoundary : public RecipeTest {
 protected:
  static constexpr int64_t kMost = 129;

  struct Taken {
    std::vector<Sample> samples;
    Boundaries seen;
  };
  /// What the sampler does with the first `count` requests, all at once.
  static Taken sample(Weights& weights, const std::string& recipe, int64_t count) {
    Sides sides(weights, {.recipe = recipe, .threads = 2, .sampler = {kMost, 32, 512}});
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + i % 9);
    Taken taken;
    SampleParams params;
    params.max_new_tokens = 3;
    sides.sampler.set_probe(&taken.seen);
    taken.samples = sides.sampler.generate(requests_of(lengths, weights.config().vocab_size), params);
    return taken;
  }
  /// Every row of `few` is in `many`, boundary for boundary.
  static void expect_inside(const Boundaries& few, const Boundaries& many, const std::string& what) {
    for (const auto& [row, values] : few.by_row) {
      const auto it = many.by_row.find(row);
      ASSERT_NE(it, many.by_row.end()) << what;
      ASSERT_EQ(Boundaries::difference(values, it->second), "")
          << what << ", request " << std::get<0>(row) << ", position " << std::get<1>(row);
    }
  }
  static void check_batches(const ModelConfig& config, const std::string& recipe) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 61);
    const Taken most = sample(weights, recipe, kMost);
    ASSERT_GT(most.seen.by_row.begin()->second.size(), 12u) << "boundaries of a token";
    for (const int64_t count : {1, 2, 3, 17, 64, 128})
      expect_inside(sample(weights, recipe, count).seen, most.seen,
                    fmt::format("{} of {} sequences", count, kMost));
  }
};
MINITE_RECIPES(EveryBoundary, Which::row_local);

TEST_P(EveryBoundary, IsThatOfTheTokenAlone) { check_batches(tiny_config(), GetParam()); }
TEST_P(EveryBoundary, IsThatOfTheTokenAloneWithExperts) { check_batches(tiny_experts(), GetParam()); }

TEST_P(EveryBoundary, IsTheSameForLearnerAndSampler) {
  for (const ModelConfig& config : {tiny_config(), tiny_experts()}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 62);
    const Taken sampled = sample(weights, GetParam(), 33);
    Sides sides(weights, {.recipe = GetParam(), .learner = {64, 64}});
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < 33; ++i) lengths.push_back(1 + i % 9);
    Boundaries learned;
    sides.learner.set_probe(&learned);
    const auto scores =
        score(sides.learner, sequences_of(requests_of(lengths, config.vocab_size), sampled.samples));
    EXPECT_TRUE(same_bits(scores.logp, scores_of(sampled.samples).logp));
    EXPECT_EQ(learned.by_row.size(), sampled.seen.by_row.size()) << "tokens that were read";
    expect_inside(sampled.seen, learned, "sampler in learner");
  }
}

TEST_P(EveryBoundary, ComesBackWithTheWeightsAndEveryTime) {
  for (const ModelConfig& config : {tiny_config(), tiny_experts()}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 63);
    const Taken first = sample(weights, GetParam(), 5);
    for (int i = 0; i < 4; ++i) expect_inside(first.seen, sample(weights, GetParam(), 5).seen, "repeated");
    fill_strong(weights, 64);
    const Taken other = sample(weights, GetParam(), 5);
    EXPECT_NE(Boundaries::difference(first.seen.by_row.begin()->second, other.seen.by_row.begin()->second),
              "");
    fill_strong(weights, 63);
    expect_inside(first.seen, sample(weights, GetParam(), 5).seen, "weights A, B, A");
  }
}

/// A tensor-wide scale ties the tokens of a batch together, so the suite can fail.
TEST(EveryBoundaryOfATensor, DependsOnTheBatch) {
  Weights weights(tiny_config(), DType::bf16, Purpose::training);
  fill_strong(weights, 61);
  const auto taken = [&](std::vector<int64_t> lengths) {
    Sides sides(weights, {.recipe = "nvfp4_per_tensor", .policy = {Policy::Kind::fastest, {}}});
    Boundaries seen;
    SampleParams params;
    params.max_new_tokens = 1;
    sides.sampler.set_probe(&seen);
    (void)sides.sampler.generate(requests_of(lengths, 40), params);
    return seen;
  };
  const Boundaries alone = taken({9}), batch = taken({9, 9, 9, 9});
  const auto& [row, values] = *alone.by_row.begin();
  EXPECT_NE(Boundaries::difference(values, batch.by_row.at(row)), "");
}

}  // namespace
}  // namespace minite::invariance
