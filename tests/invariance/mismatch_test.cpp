// The gap is measured, not assumed: the smallest change on one side shows.
#include <cmath>

#include "invariance/invariance.h"
#include "support/expect_error.h"
#include "support/packed_run.h"

namespace minite::invariance {
namespace {
using namespace test_support;

SampleParams params(int64_t new_tokens) {
  SampleParams p;
  p.max_new_tokens = new_tokens;
  p.seed = 4;
  return p;
}

/// A model with strong weights, a few requests, and both sides.
struct Bench {
  ModelConfig config = tiny_config();
  Weights weights{config, DType::bf16, Purpose::training};
  std::vector<SampleRequest> requests = requests_of({4, 70, 11}, config.vocab_size);
  Bench() { fill_strong(weights, 41); }
};

TEST(Mismatch, OneUlpOfARecordedLogProbIsAGap) {
  Bench b;
  Sides sides(b.weights, {});
  const auto samples = sides.sampler.generate(b.requests, params(8));
  const Scores learned = score(sides.learner, sequences_of(b.requests, samples));
  Scores recorded = scores_of(samples);
  ASSERT_EQ(gap_between(learned.logp, recorded.logp).abs_max, 0.0);
  const float before = recorded.logp[5];
  recorded.logp[5] = std::nextafter(before, 0.0f);
  const rl::GapStats gap = gap_between(learned.logp, recorded.logp);
  EXPECT_EQ(gap.abs_max, std::abs(static_cast<double>(before) - static_cast<double>(recorded.logp[5])));
  EXPECT_GT(gap.abs_mean, 0.0);
}

/// Changes one element of one module's output by one ulp, in one pass.
class OneUlp : public Probe {
 public:
  OneUlp(std::string_view module, int pass) : module_(module), pass_(pass) {}
  void value(const Tap& at, const TensorView& value) override {
    if (at.module != module_ || at.point != Point::output || seen_++ != pass_) return;
    if (value.dtype == DType::bf16) {
      value.as<bf16>()[1].bits ^= 1;
    } else {
      float* largest = std::max_element(value.as<float>(), value.as<float>() + value.cols);
      *largest = std::nextafter(*largest, 100.0f);
    }
  }

 private:
  std::string_view module_;
  int pass_, seen_ = 0;
};

/// Pass 0 is the prefill. Where the largest logit is nearly certain, its log-prob rounds to the same value;
/// such passes show no gap because nothing that is recorded has changed.
TEST(Mismatch, OneUlpOfADecodeOutputIsAGap) {
  Bench b;
  for (const char* module : {"final_norm", "lm_head"}) {
    for (const OpTable* table : cpu_tables()) {
      Sides sides(b.weights, {.table = table});
      int shown = 0;
      for (int pass = 1; pass < 8; ++pass) {
        if (table == &ref::table() && pass % 3 != 0) continue;
        OneUlp probe(module, pass);
        sides.sampler.set_probe(&probe);
        const auto samples = sides.sampler.generate(b.requests, params(8));
        sides.sampler.set_probe(nullptr);
        const Scores learned = score(sides.learner, sequences_of(b.requests, samples));
        shown += gap_between(learned.logp, scores_of(samples).logp).abs_max > 0.0 ? 1 : 0;
      }
      EXPECT_GE(shown, table == &ref::table() ? 1 : 3) << module << " " << table->name;
    }
  }
}

TEST(Mismatch, OneWeightCodeOfTheSamplerIsAGap) {
  Bench b;
  Sides sides(b.weights, {});
  const LinearWeights w = sides.cache.add("layers.1.down", get_recipe("nvfp4_per_token").params);
  sides.cache.refresh(sides.learner.context());
  w.fprop.codes[0] ^= 1;
  const auto samples = sides.sampler.generate(b.requests, params(8));
  w.fprop.codes[0] ^= 1;
  const Scores learned = score(sides.learner, sequences_of(b.requests, samples));
  EXPECT_GT(gap_between(learned.logp, scores_of(samples).logp).abs_max, 0.0);
}

/// One ulp of attention is often lost: four-bit codes swallow it, and even BF16 roundings do. So a BF16
/// recipe, and the elements of one key (value) one after the other: some must show, and undoing the change
/// must not.
void check_one_ulp_of_the_cache(KvFormat format) {
  constexpr int64_t kPrompt = 70, kLength = 90, kAt = 66 - kKeyBlock;
  Bench b;
  Sides sides(b.weights, {.recipe = "bf16", .kv = format});
  const auto tokens = random_tokens(kLength + 1, b.config.vocab_size, 9, 0);
  const Scores learned = score(sides.learner, std::vector<Sequence>{{tokens, kPrompt + 1}});
  PackedRun run(sides.network, fast_table(), sides.pool, 1, kLength);
  PackedRows prompt;
  prompt.add(tokens, 0, 0, kPrompt);
  (void)run.run(prompt.rows(), prompt.target);
  const auto decoded_gap = [&] {
    std::vector<float> recorded;
    for (int64_t p = kPrompt; p < kLength; ++p) {
      PackedRows step;
      step.add(tokens, 0, p, p + 1);
      recorded.push_back(run.run(step.rows(), step.target).logp[0]);
    }
    return gap_between(learned.logp, recorded).abs_max;
  };
  // The lowest byte of a BF16 element holds the bit; a code is that byte.
  const KvStore& kv = run.kv().layers[0];
  const int64_t size = kv_element_size(kv.format, kv.dtype);
  for (const bool key : {true, false}) {
    int shown = 0;
    for (int64_t d = 0; d < kv.head_dim; ++d) {
      const int64_t head = kv.block_elements();  // block 1, head 0
      const int64_t at = key ? d * kKeyBlock + kAt : kKeyBlock * kv.head_dim + kAt * kv.head_dim + d;
      uint8_t& lowest = static_cast<uint8_t*>(kv.data)[(head + at) * size];
      lowest ^= 1;
      shown += decoded_gap() > 0.0 ? 1 : 0;
      lowest ^= 1;
    }
    EXPECT_GE(shown, 4) << (key ? "key" : "value");
    EXPECT_EQ(decoded_gap(), 0.0);
  }
}
TEST(Mismatch, OneUlpInTheKeyValueCacheIsAGap) { check_one_ulp_of_the_cache(KvFormat::bf16); }
TEST(Mismatch, OneCodeInTheKeyValueCacheIsAGap) { check_one_ulp_of_the_cache(KvFormat::fp8); }

/// FP8 on one side only, either side, for every row-local recipe; dense and with experts.
TEST(Mismatch, KeysAndValuesInFp8OnOneSideHaveAGap) {
  for (const ModelConfig& config : {tiny_config(), tiny_experts()}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 41);
    const auto requests = requests_of({4, 70, 11}, config.vocab_size);
    for (const std::string& recipe : recipe_names(Which::row_local)) {
      Sides plain(weights, {.recipe = recipe}), fp8(weights, {.recipe = recipe, .kv = KvFormat::fp8});
      const auto gap = [&](Sides& sampler, Sides& learner) {
        const auto samples = sampler.sampler.generate(requests, params(8));
        const Scores learned = score(learner.learner, sequences_of(requests, samples));
        return gap_between(learned.logp, scores_of(samples).logp).abs_max;
      };
      EXPECT_GT(gap(fp8, plain), 1e-4) << config.family << " " << recipe;
      EXPECT_GT(gap(plain, fp8), 1e-4) << config.family << " " << recipe;
      EXPECT_EQ(gap(fp8, fp8), 0.0) << config.family << " " << recipe;
    }
  }
}

/// The scales are part of the sampler's numerics: both sides read those of the weights.
TEST(Mismatch, OtherScalesAreAGap) {
  Bench b;
  Sides sides(b.weights, {.kv = KvFormat::fp8});
  const auto samples = sides.sampler.generate(b.requests, params(8));
  const auto sequences = sequences_of(b.requests, samples);
  b.weights.set_kv_scales(uneven_kv_scales(b.config));
  EXPECT_GT(gap_between(score(sides.learner, sequences).logp, scores_of(samples).logp).abs_max, 1e-4);
  b.weights.set_kv_scales(std::vector<KvScale>(2));
  EXPECT_EQ(gap_between(score(sides.learner, sequences).logp, scores_of(samples).logp).abs_max, 0.0);
}

TEST(Mismatch, TensorScalesAreRefusedWhereBatchInvarianceIsPromised) {
  Bench b;
  for (const OpTable* table : cpu_tables()) {
    expect_error(ErrorCode::unsupported, {"layers.0.qkv", "nvfp4_per_tensor", "batch_invariant"},
                 [&] { Sides(b.weights, {.recipe = "nvfp4_per_tensor", .table = table}); });
  }
  // A rule that reaches one module only is refused with that module's name.
  WeightCache cache(b.weights);
  const auto rules =
      parse_rules("rules:\n  - match: layers.1.down\n    recipe: nvfp4_per_tensor\n", "rules.yaml");
  const auto resolved = resolve("nvfp4_per_token", rules, linear_modules(b.config), 2);
  expect_error(ErrorCode::unsupported, {"layers.1.down"},
               [&] { Network(b.weights, cache, resolved, ref::table(), Policy{}); });
}

TEST(Mismatch, TensorScalesRunUnderFastestAndHaveAGap) {
  for (const OpTable* table : cpu_tables()) {
    Bench b;
    Sides sides(b.weights,
                {.recipe = "nvfp4_per_tensor", .table = table, .policy = {Policy::Kind::fastest, {}}});
    const auto samples = sides.sampler.generate(b.requests, params(8));
    const Scores learned = score(sides.learner, sequences_of(b.requests, samples));
    EXPECT_GT(gap_between(learned.logp, scores_of(samples).logp).abs_max, 1e-4) << table->name;
  }
}

TEST(Mismatch, AnotherRecipeOnTheSamplerHasAGap) {
  Bench b;
  Sides sampler(b.weights, {}), learner(b.weights, {.recipe = "bf16"});
  const auto samples = sampler.sampler.generate(b.requests, params(8));
  const Scores learned = score(learner.learner, sequences_of(b.requests, samples));
  EXPECT_GT(gap_between(learned.logp, scores_of(samples).logp).abs_max, 1e-3);
}

}  // namespace
}  // namespace minite::invariance
