// One update of the learner, forward and backward, leaves the same bits on every backend, with any number of
// threads, every time.
#include <cmath>

#include "invariance/invariance.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class Gradients : public RecipeTest {};
MINITE_RECIPES(Gradients, Which::all);

/// What an update leaves behind.
struct State {
  std::vector<float> logp, entropy;
  std::vector<std::byte> gradients, optimizer, weights;
  float clip = 0;
  friend bool operator==(const State& a, const State& b) {
    return same_bits(a.logp, b.logp) && same_bits(a.entropy, b.entropy) && a.gradients == b.gradients &&
           a.optimizer == b.optimizer && a.weights == b.weights && a.clip == b.clip;
  }
};

/// Lengths are no multiples of a block: 9 + 70 rows, then 4 rows, as micro-batches; 70 keys cross a block.
std::vector<Sequence> batch() {
  return {{random_tokens(10, 40, 61, 0), 2},
          {random_tokens(71, 40, 61, 1), 30},
          {random_tokens(5, 40, 61, 2), 1}};
}

State update(const ModelConfig& config, const std::string& recipe, const OpTable& table, int threads,
             KvFormat kv = KvFormat::bf16) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 61);
  weights.set_kv_scales(uneven_kv_scales(config));
  Sides sides(weights, {recipe, &table, threads, {1, 80, 80}, {80, 80}, {Policy::Kind::fastest, {}}, kv});
  State state;
  int micro = 0;
  StepResult result = sides.learner.accumulate(
      batch(), 0.9f, Learner::EntropyGradient::wanted,
      [&](const MicroBatch& m) {
        ++micro;
        state.logp.insert(state.logp.end(), m.logp.begin(), m.logp.end());
        state.entropy.insert(state.entropy.end(), m.entropy.begin(), m.entropy.end());
        for (size_t i = 0; i < m.dlogp.size(); ++i) {
          m.dlogp[i] = i % 3 == 0 ? 0.75f : -1.0f / static_cast<float>(i + 1);
          m.dentropy[i] = 0.01f * static_cast<float>(i % 5);
        }
      },
      0.01);
  EXPECT_EQ(micro, 2);
  OptimizerConfig optimizer;
  optimizer.weight_decay = 0.1f;
  sides.learner.apply(optimizer, 1, result);
  state.clip = result.clip_scale;
  const auto append = [](std::vector<std::byte>& to, const TensorView& t) {
    const auto bytes = bytes_of(t);
    to.insert(to.end(), bytes.begin(), bytes.end());
  };
  for (const Parameter& p : weights.parameters()) {
    append(state.gradients, p.grad);
    for (const TensorView& t : {p.master, p.m, p.v}) append(state.optimizer, t);
    append(state.weights, p.weight);
  }
  return state;
}

/// The same update on every backend with 1, 2 and 3 threads; returns it.
State check_update(const ModelConfig& config, const std::string& recipe, KvFormat kv) {
  State expected = update(config, recipe, fast_table(), 1, kv);
  EXPECT_LT(expected.clip, 1.0f) << "clipping should take part";
  for (const OpTable* table : cpu_tables()) {
    for (const int threads : {1, 2, 3}) {
      if (table == &ref::table() && threads != 2) continue;  // ref is sequential
      const State state = update(config, recipe, *table, threads, kv);
      const std::string what = fmt::format("{}, {} threads, KV {}", table->name, threads, kv_format(kv).name);
      EXPECT_TRUE(same_bits(state.logp, expected.logp)) << what << ": forward";
      EXPECT_TRUE(state.gradients == expected.gradients) << what << ": backward";
      EXPECT_TRUE(state == expected) << what << ": optimizer";
    }
  }
  return expected;
}

TEST_P(Gradients, AreBitIdenticalOnEveryBackendWithAnyThreads) {
  for (const ModelConfig& config :
       {tiny_config(32, true), tiny_config(24, false), tiny_experts(24, false), tiny_llama(24, true)}) {
    (void)check_update(config, GetParam(), KvFormat::bf16);
  }
}

TEST_P(Gradients, OfFp8KeysAreBitIdenticalOnEveryBackendWithAnyThreads) {
  for (const ModelConfig& config : {tiny_config(24, false), tiny_experts(32, false)}) {
    const State fp8 = check_update(config, GetParam(), KvFormat::fp8);
    EXPECT_FALSE(fp8.gradients == update(config, GetParam(), fast_table(), 1).gradients)
        << "the learner's format reaches its gradient";
  }
}

TEST_P(Gradients, RepeatBitForBit) {
  for (const ModelConfig& config : {tiny_config(), tiny_experts()}) {
    const State expected = update(config, GetParam(), fast_table(), 3);
    for (int i = 0; i < 5; ++i)
      EXPECT_TRUE(update(config, GetParam(), fast_table(), 3) == expected) << config.family << " " << i;
  }
}

/// A step on a model that has stepped before equals the same step on a copy that was restored.
TEST_P(Gradients, DoNotDependOnEarlierBatches) {
  Weights weights(tiny_config(), DType::bf16, Purpose::training);
  fill_strong(weights, 62);
  Sides sides(weights, {GetParam(), &fast_table(), 2, {1, 80, 80}, {512, 80}, {Policy::Kind::fastest, {}}});
  const auto gradients = [&](std::span<const Sequence> sequences) {
    (void)sides.learner.accumulate(sequences, 1.0f, Learner::EntropyGradient::none, [](const MicroBatch& m) {
      std::fill(m.dlogp.begin(), m.dlogp.end(), -0.5f);
    });
    std::vector<std::byte> all;
    for (const Parameter& p : weights.parameters()) {
      const auto bytes = bytes_of(p.grad);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  const auto all = batch();
  const auto expected = gradients(std::span(all).first(1));
  (void)gradients(all);
  EXPECT_EQ(gradients(std::span(all).first(1)), expected);
}

class Scoring : public RecipeTest {};
MINITE_RECIPES(Scoring, Which::row_local);

/// 12 sequences of 20 to 141 tokens, scored in micro-batches of at most `micro` tokens, given in the order
/// that steps by `step` through them; scores of each sequence, in the first order.
std::vector<Scores> scored(Weights& weights, const SideOptions& options, uint64_t step) {
  constexpr uint64_t kCount = 12;
  std::vector<Sequence> sequences;
  for (uint64_t i = 0; i < kCount; ++i) {
    const uint64_t s = i * step % kCount;
    sequences.push_back({random_tokens(20 + 11 * static_cast<int64_t>(s), 40, 63, s), 1});
  }
  Sides sides(weights, options);
  const Scores all = score(sides.learner, sequences);
  EXPECT_GT(all.logp.size(), static_cast<size_t>(Network::kLogitRows));
  std::vector<Scores> each(kCount);
  size_t at = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const auto n = static_cast<size_t>(sequences[i].response());
    Scores& own = each[i * step % kCount];
    own.logp.assign(&all.logp[at], &all.logp[at] + n);
    own.entropy.assign(&all.entropy[at], &all.entropy[at] + n);
    at += n;
  }
  return each;
}
/// Sequences of `a` whose scores differ in `b`.
int differing(const std::vector<Scores>& a, const std::vector<Scores>& b) {
  int count = 0;
  for (size_t s = 0; s < a.size(); ++s) count += same_bits(a[s], b[s]) ? 0 : 1;
  return count;
}

TEST_P(Scoring, DoesNotDependOnMicroBatchesOrPacking) {
  for (const ModelConfig& config : {tiny_config(), tiny_experts(24)}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_uneven(weights, 63);
    const auto options = [&](int64_t micro) {
      return SideOptions{GetParam(), &fast_table(), 2, {1, 160, 160}, {micro, 160}, {}};
    };
    const auto expected = scored(weights, options(4096), 1);
    for (const int64_t micro : {140, 200, 333, 1000, 4096}) {
      for (const uint64_t step : {1u, 5u, 11u})
        EXPECT_EQ(differing(scored(weights, options(micro), step), expected), 0)
            << config.family << ", micro-batches of " << micro << ", every " << step << "th";
    }
  }
}

/// The check above can fail: with an activation scale of the whole tensor it does.
TEST(ScoringByTensor, DependsOnMicroBatchesAndPacking) {
  for (const ModelConfig& config : {tiny_config(), tiny_experts(24)}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_uneven(weights, 63);
    const auto options = [&](int64_t micro) {
      return SideOptions{"nvfp4_per_tensor", &fast_table(), 2,
                         {1, 160, 160},      {micro, 160},  {Policy::Kind::fastest, {}}};
    };
    const auto whole = scored(weights, options(4096), 1);
    EXPECT_GT(differing(scored(weights, options(140), 1), whole), 6) << config.family;
    EXPECT_GT(differing(scored(weights, options(333), 5), scored(weights, options(333), 1)), 6)
        << config.family;
  }
}

class LargeBatch : public RecipeTest {};
MINITE_RECIPES(LargeBatch, Which::any_micro_batch);

/// Rows of logits are walked 512 at a time; 729 scored rows in one micro-batch give the gradients of many
/// small ones, up to the order of FP32 sums.
void check_large_batch(const ModelConfig& config, const std::string& recipe) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 65);
  std::vector<Sequence> sequences;
  for (uint64_t s = 0; s < 9; ++s) sequences.push_back({random_tokens(82, 40, 65, s), 1});
  std::vector<std::vector<float>> expected;
  for (const int64_t micro : {100, 4096}) {
    Sides sides(weights, {recipe, &fast_table(), 2, {1, 160, 160}, {micro, 160}, {}});
    (void)sides.learner.accumulate(sequences, 0.9f, Learner::EntropyGradient::wanted,
                                   [](const MicroBatch& m) {
                                     for (size_t i = 0; i < m.dlogp.size(); ++i) {
                                       const auto in_sequence = static_cast<float>(i % 81);
                                       m.dlogp[i] = in_sequence / 81.0f - 0.3f;
                                       m.dentropy[i] = 0.5f - in_sequence / 200.0f;
                                     }
                                   });
    for (size_t i = 0; i < weights.parameters().size(); ++i) {
      const Parameter& p = weights.parameters()[i];
      std::vector<float> grad(p.grad.as<float>(), p.grad.as<float>() + p.grad.size());
      if (micro == 100) {
        expected.push_back(std::move(grad));
        continue;
      }
      double difference = 0, norm = 0;
      for (size_t j = 0; j < grad.size(); ++j) {
        difference += std::pow(static_cast<double>(grad[j]) - static_cast<double>(expected[i][j]), 2);
        norm += std::pow(static_cast<double>(expected[i][j]), 2);
      }
      EXPECT_GT(norm, 0.0) << p.spec.name;
      EXPECT_LT(std::sqrt(difference / norm), 1e-5) << p.spec.name;
    }
  }
}

TEST_P(LargeBatch, HasTheGradientsOfSmallOnes) {
  check_large_batch(tiny_config(), GetParam());
  check_large_batch(tiny_experts(24), GetParam());
}

/// The forward pass of an update is the one that scores.
TEST_P(Scoring, IsTheForwardPassOfAnUpdate) {
  Weights weights(tiny_config(24, true), DType::bf16, Purpose::training);
  fill_strong(weights, 64);
  Sides sides(weights, {GetParam(), &fast_table(), 2, {1, 80, 80}, {100, 80}, {}});
  const Scores scores = score(sides.learner, batch(), 0.7f);
  Scores updating;
  (void)sides.learner.accumulate(batch(), 0.7f, Learner::EntropyGradient::none, [&](const MicroBatch& m) {
    EXPECT_TRUE(m.dentropy.empty());
    updating.logp.insert(updating.logp.end(), m.logp.begin(), m.logp.end());
    updating.entropy.insert(updating.entropy.end(), m.entropy.begin(), m.entropy.end());
  });
  EXPECT_TRUE(same_bits(scores, updating));
}

}  // namespace
}  // namespace minite::invariance
