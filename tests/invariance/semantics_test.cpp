// Slips of meaning that other systems reported, with the right behaviour: temperature, refits, the number of
// rows, unrelated traffic. docs/slips.md lists them.
#include "invariance/invariance.h"
#include "support/packed_run.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class Semantics : public RecipeTest {};
MINITE_RECIPES(Semantics, Which::row_local);

SampleParams at_temperature(float t) {
  SampleParams p;
  p.temperature = t;
  p.max_new_tokens = 16;
  p.seed = 5;
  return p;
}

double gap_of(const Scores& learner, const Scores& sampler) {
  return gap_between(learner.logp, sampler.logp).abs_mean;
}

TEST_P(Semantics, BothSidesDivideLogitsByTheTemperature) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 81);
  Sides sides(weights, {.recipe = GetParam()});
  const auto requests = requests_of({3, 20, 7, 41}, config.vocab_size);
  for (const float t : {0.6f, 1.0f, 1.5f}) {
    const auto samples = sides.sampler.generate(requests, at_temperature(t));
    const auto sequences = sequences_of(requests, samples);
    const Scores recorded = scores_of(samples), learned = score(sides.learner, sequences, t);
    EXPECT_EQ(gap_of(learned, recorded), 0.0) << t;
    if (t == 1.0f) continue;
    const Scores plain = score(sides.learner, sequences, 1.0f);
    EXPECT_GT(gap_of(plain, recorded), 0.05) << "rescoring at another temperature is a gap, " << t;
    Scores scaled = plain;  // log_softmax(z) / T is not log_softmax(z / T)
    for (float& x : scaled.logp) x /= t;
    EXPECT_GT(gap_of(scaled, recorded), 0.05) << t;
  }
}

/// Log-probs that belong to the token before: the commonest slip of indices.
TEST_P(Semantics, ShiftedLogProbsAreALargeGap) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 82);
  Sides sides(weights, {.recipe = GetParam()});
  const auto requests = requests_of({3, 20}, config.vocab_size);
  const auto samples = sides.sampler.generate(requests, at_temperature(1.0f));
  Scores shifted = scores_of(samples);
  std::rotate(shifted.logp.begin(), shifted.logp.begin() + 1, shifted.logp.end());
  EXPECT_GT(gap_of(score(sides.learner, sequences_of(requests, samples)), shifted), 0.2);
}

/// After every update the sampler has the new weights; the gap never rises.
TEST_P(Semantics, TheGapStaysZeroThroughRefits) {
  const ModelConfig config = tiny_experts();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 83);
  Sides sides(weights, {.recipe = GetParam()});
  const auto requests = requests_of({3, 20, 7}, config.vocab_size);
  std::vector<Sample> before;
  for (int64_t number = 1; number <= 4; ++number) {
    const auto samples = sides.sampler.generate(requests, at_temperature(1.0f));
    const auto sequences = sequences_of(requests, samples);
    EXPECT_TRUE(same_bits(score(sides.learner, sequences), scores_of(samples))) << number;
    EXPECT_FALSE(number > 1 && same_bits(samples, before)) << "no cache holds what old weights made";
    StepResult result = sides.learner.accumulate(
        sequences, 1.0f, Learner::EntropyGradient::none,
        [](const MicroBatch& m) { std::fill(m.dlogp.begin(), m.dlogp.end(), -1.0f); });
    sides.learner.apply({.lr = 1e-2f}, number, result);
    sides.cache.refresh(sides.learner.context());
    before = samples;
  }
}

/// One row among M: no kernel is chosen by M, no scale spans rows.
void check_row_counts(const ModelConfig& config, const std::string& recipe) {
  constexpr std::array<int64_t, 16> kRows = {1, 2, 7, 8, 9, 16, 17, 33, 48, 64, 100, 112, 127, 128, 144, 160};
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 84);
  for (const OpTable* table : cpu_tables()) {
    if (table == &ref::table()) continue;
    Sides sides(weights, {.recipe = recipe, .table = table, .threads = 2});
    PackedRun run(sides.network, *table, sides.pool, kRows.back(), 2);
    float expected = 0;
    for (const int64_t m : kRows) {
      PackedRows rows;
      for (int64_t s = 0; s < m; ++s) {
        const auto tokens = random_tokens(2, config.vocab_size, 85, static_cast<uint64_t>(s));
        rows.add(tokens, static_cast<int32_t>(s), 0, 1);
      }
      run.poison();
      const float logp = run.run(rows.rows(), rows.target).logp[0];
      if (m == 1) expected = logp;
      EXPECT_EQ(logp, expected) << table->name << ": among " << m << " rows";
    }
  }
}
TEST_P(Semantics, ARowDoesNotDependOnTheNumberOfRows) { check_row_counts(tiny_config(), GetParam()); }
TEST_P(Semantics, ARowOfLlamaDoesNotDependOnTheNumberOfRows) { check_row_counts(tiny_llama(), GetParam()); }
TEST_P(Semantics, ARowOfExpertsDoesNotDependOnTheNumberOfRows) {
  check_row_counts(tiny_experts(), GetParam());
}

/// One request alone, with 43 others, and beside a long prefill, five times each.
TEST_P(Semantics, UnrelatedTrafficChangesNoBit) {
  const ModelConfig config = tiny_experts();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 86);
  Sides sides(weights, {.recipe = GetParam(), .threads = 2, .sampler = {44, 192, 300}});
  std::vector<int64_t> lengths(44, 9);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] += static_cast<int64_t>(i * 7 % 30);
  const auto crowd = requests_of(lengths, config.vocab_size);
  const std::vector<SampleRequest> alone = {crowd[0]};
  std::vector<SampleRequest> long_prefill = {requests_of({150}, config.vocab_size)[0], crowd[0]};
  long_prefill[0].id = 999;
  const auto expected = sides.sampler.generate(alone, at_temperature(1.0f));
  for (int repeat = 0; repeat < 5; ++repeat) {
    EXPECT_TRUE(same_bits(sides.sampler.generate(alone, at_temperature(1.0f)), expected)) << repeat;
    EXPECT_TRUE(same_bits({sides.sampler.generate(crowd, at_temperature(1.0f))[0]}, expected)) << repeat;
    EXPECT_TRUE(same_bits({sides.sampler.generate(long_prefill, at_temperature(1.0f))[1]}, expected))
        << repeat;
  }
}

}  // namespace
}  // namespace minite::invariance
