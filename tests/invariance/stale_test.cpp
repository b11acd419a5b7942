// A sampler that lags behind: its log-probs are, bit for bit, those of the learner at the sampler's version
// of the weights, so that the whole gap of a stale rollout comes from the updates in between.
#include "invariance/invariance.h"
#include "learn/weight_history.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

/// One optimizer update towards the given sequences.
void update(Sides& sides, const std::vector<Sequence>& sequences, int64_t number) {
  StepResult result =
      sides.learner.accumulate(sequences, 1.0f, Learner::EntropyGradient::none, [](const MicroBatch& m) {
        for (float& d : m.dlogp) d = -1.0f;
      });
  sides.learner.apply({.lr = 1e-2f}, number, result);
  sides.cache.refresh(sides.learner.context());
}

class Stale : public RecipeTest {};
MINITE_RECIPES(Stale, Which::row_local);

TEST_P(Stale, TheGapIsThatOfTheUpdatesInBetween) {
  constexpr int64_t kLag = 2;
  const ModelConfig config = tiny_experts();
  Weights weights(config, DType::bf16, Purpose::training),
      old(config, DType::bf16, Purpose::training);  // training: the test scores with them too
  fill_strong(weights, 31);
  fill_strong(old, 1);
  Sides now(weights, {.recipe = GetParam()}), lagging(old, {.recipe = GetParam()});
  learn::WeightHistory history(kLag);
  const auto requests = requests_of({3, 30, 8}, config.vocab_size);
  SampleParams params;
  params.max_new_tokens = 12;
  std::vector<Sequence> sequences;
  for (int64_t step = 0; step < 4; ++step) {
    history.keep(step, weights);
    const int64_t version = std::max<int64_t>(0, step - kLag);
    history.restore(version, old);
    lagging.cache.refresh(lagging.learner.context());
    const auto samples = lagging.sampler.generate(requests, params);
    sequences = sequences_of(requests, samples);
    const Scores recorded = scores_of(samples);
    EXPECT_TRUE(same_bits(score(lagging.learner, sequences), recorded)) << "the same version: exactly 0";
    const double gap = gap_between(score(now.learner, sequences).logp, recorded.logp).abs_mean;
    if (version == step) {
      EXPECT_EQ(gap, 0.0) << step;
    } else {
      EXPECT_GT(gap, 0.0) << step;
    }
    update(now, sequences, step + 1);
  }
}

}  // namespace
}  // namespace minite::invariance
