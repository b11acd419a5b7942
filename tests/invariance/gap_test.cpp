// What the sampler recorded token by token in decode is what the learner computes over the packed sequences:
// equal bits for any batch, slots, prefill size, threads and backend.
#include <algorithm>
#include <cmath>

#include "invariance/invariance.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class Gap : public RecipeTest {};
MINITE_RECIPES(Gap, Which::row_local);

/// Prompts of 1 to 60 tokens; every eleventh is long, so that its keys fill three blocks of 64.
std::vector<int64_t> prompt_lengths(int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(i % 11 == 4 ? 118 + i : 1 + i * 37 % 60);
  return lengths;
}

SampleParams params(int64_t new_tokens, float temperature) {
  SampleParams p;
  p.max_new_tokens = new_tokens;
  p.temperature = temperature;
  p.seed = 3;
  return p;
}

/// Batches of 1..33 sequences, `step` apart.
void check_batch_sizes(const ModelConfig& config, const std::string& recipe, size_t step,
                       KvFormat kv = KvFormat::bf16) {
  Weights weights(config, DType::bf16, Purpose::training);
  weights.set_kv_scales(uneven_kv_scales(config));
  Sides sides(weights, {.recipe = recipe, .kv = kv});
  const auto requests = requests_of(prompt_lengths(33), config.vocab_size);
  // Weights under which this recipe is neither uniform nor certain: it must be hard to agree by chance.
  std::vector<Sample> all;
  bool mixed = false;
  for (uint64_t seed = 5; !mixed && seed < 25; ++seed) {
    fill_strong(weights, seed);
    sides.cache.refresh(sides.learner.context());
    all = sides.sampler.generate(requests, params(20, 1.0f));
    const auto logp = scores_of(all).logp;
    const auto [lowest, highest] = std::minmax_element(logp.begin(), logp.end());
    mixed = *lowest < -2.5f && *highest > -0.5f;
  }
  ASSERT_TRUE(mixed) << "no test model is mixed under this recipe";
  const auto sequences = sequences_of(requests, all);
  for (size_t n = 1; n <= requests.size(); n += step) {
    const auto some = sides.sampler.generate(std::span(requests).first(n), params(20, 1.0f));
    ASSERT_TRUE(same_bits(some, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)})) << n;
    ASSERT_TRUE(same_bits(scores_of(some), score(sides.learner, std::span(sequences).first(n)))) << n;
  }
}

TEST_P(Gap, IsZeroForBatchesOf1To33) { check_batch_sizes(tiny_config(32, false), GetParam(), 1); }
TEST_P(Gap, IsZeroForATiedModelWithRaggedHeads) { check_batch_sizes(tiny_config(24, true), GetParam(), 8); }

TEST_P(Gap, IsZeroForAMixtureOfExperts) { check_batch_sizes(tiny_experts(32, false), GetParam(), 4); }
TEST_P(Gap, IsZeroForAMixtureOfRaggedExperts) {
  check_batch_sizes(ragged_experts(GetParam()), GetParam(), 8);
}

/// Every recipe of the table that is row-local, dense and with experts. A simulated E5M1 loses whole blocks
/// to E4M3 scales that underflow: its log-probs are NaN, on both sides alike.
TEST(EveryRecipe, LearnerEqualsSampler) {
  for (const ModelConfig& config : {tiny_config(32, false), tiny_experts(32, false)}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 5);
    const auto requests = requests_of(prompt_lengths(5), config.vocab_size);
    for (const RecipeSpec& row : recipes()) {
      if (!row.params.row_local()) continue;
      Sides sides(weights, {.recipe = std::string(row.name)});
      const auto samples = sides.sampler.generate(requests, params(6, 1.0f));
      const Scores scores = scores_of(samples);
      EXPECT_TRUE(same_bits(scores, score(sides.learner, sequences_of(requests, samples)))) << row.name;
      const bool finite =
          std::all_of(scores.logp.begin(), scores.logp.end(), [](float x) { return std::isfinite(x); });
      EXPECT_EQ(finite, row.name != "sim_e5m1") << row.name;
    }
  }
}

TEST_P(Gap, IsZeroWithFp8KeysAndValues) {
  check_batch_sizes(tiny_config(32, false), GetParam(), 8, KvFormat::fp8);
  check_batch_sizes(tiny_config(24, true), GetParam(), 16, KvFormat::fp8);
  check_batch_sizes(tiny_experts(32, false), GetParam(), 16, KvFormat::fp8);
}

/// The same requests by any slots, prefill size, threads and backend.
void check_everywhere(const ModelConfig& config, const std::string& recipe, KvFormat kv = KvFormat::bf16) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 6);
  weights.set_kv_scales(uneven_kv_scales(config));
  const auto requests = requests_of({1, 66, 17, 3, 126, 50, 63}, config.vocab_size);
  std::vector<Sample> expected;
  Scores learned;
  {
    Sides sides(weights, {.recipe = recipe, .kv = kv});
    expected = sides.sampler.generate(requests, params(6, 0.8f));
    learned = score(sides.learner, sequences_of(requests, expected), 0.8f);
    ASSERT_TRUE(same_bits(scores_of(expected), learned));
  }
  for (const OpTable* table : cpu_tables()) {
    const bool slow = table == &ref::table();  // ref takes the first four requests, two ways
    const size_t n = slow ? 4 : requests.size();
    const auto some = std::span(requests).first(n);
    const std::vector<Sample> want(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(n));
    for (const int threads : {1, 2, 3}) {
      for (const int64_t slots : {1, 3, 33}) {
        for (const int64_t prefill : {16, 4096}) {
          if (slow && (slots != 3 || threads == 3 || (threads == 1) != (prefill == 16))) continue;
          Sides sides(weights, {recipe, table, threads, {slots, 192, prefill}, {512, 192}, {}, kv});
          const std::string what =
              fmt::format("{} threads {} slots {} prefill {}", table->name, threads, slots, prefill);
          ASSERT_TRUE(same_bits(sides.sampler.generate(some, params(6, 0.8f)), want)) << what;
          if (slots != 3 || prefill != 16) continue;
          const auto sequences = sequences_of({some.begin(), some.end()}, want);
          ASSERT_TRUE(same_bits(score(sides.learner, sequences, 0.8f), scores_of(want))) << what;
        }
      }
    }
  }
}

TEST_P(Gap, IsZeroForAnySlotsPrefillThreadsAndBackend) {
  check_everywhere(tiny_config(24, false), GetParam());
}
TEST_P(Gap, IsZeroForExpertsWithAnySlotsPrefillThreadsAndBackend) {
  check_everywhere(tiny_experts(24, true), GetParam());
}
TEST_P(Gap, IsZeroForFp8KeysWithAnySlotsPrefillThreadsAndBackend) {
  check_everywhere(tiny_config(24, false), GetParam(), KvFormat::fp8);
  check_everywhere(tiny_experts(24, true), GetParam(), KvFormat::fp8);
}

TEST_P(Gap, StatisticsAreExactlyZero) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 8);
  Sides sides(weights, {.recipe = GetParam(), .threads = 2});
  const auto requests = requests_of({5, 9, 70}, config.vocab_size);
  const auto samples = sides.sampler.generate(requests, params(12, 1.0f));
  const Scores learned = score(sides.learner, sequences_of(requests, samples));
  const rl::GapStats gap = gap_between(learned.logp, scores_of(samples).logp);
  EXPECT_EQ(gap.tokens, 36);
  EXPECT_EQ(gap.abs_max, 0.0);
  EXPECT_EQ(gap.abs_mean, 0.0);
  EXPECT_EQ(gap.k3, 0.0);
  EXPECT_EQ(gap.prob_abs_max, 0.0);
}

TEST(GapEnd, AnEndOfSequenceTokenIsScoredToo) {
  ModelConfig config = tiny_config();
  config.eos_token_id = 7;
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 9);
  Sides sides(weights, {.recipe = "nvfp4_per_token"});
  const auto requests = requests_of(std::vector<int64_t>(20, 4), config.vocab_size);
  const auto samples = sides.sampler.generate(requests, params(60, 1.0f));
  int ended = 0;
  for (const Sample& s : samples) {
    ended += s.finished ? 1 : 0;
    EXPECT_EQ(s.finished, s.tokens.back() == 7);
    EXPECT_EQ(std::count(s.tokens.begin(), s.tokens.end(), 7), s.finished ? 1 : 0);
    EXPECT_TRUE(s.finished || s.tokens.size() == 60);
  }
  EXPECT_GT(ended, 3);
  EXPECT_TRUE(same_bits(scores_of(samples), score(sides.learner, sequences_of(requests, samples))));
}

}  // namespace
}  // namespace minite::invariance
