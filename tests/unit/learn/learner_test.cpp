#include "learn/learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace minite {
namespace {
using namespace test_support;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// A small model with a learner of 64 tokens a micro-batch and sequences of up to 48.
struct Bench {
  Weights weights{tiny_config(), DType::bf16, Purpose::training};
  std::unique_ptr<Sides> sides;

  explicit Bench(const std::string& recipe = "bf16") {
    fill_strong(weights, 1);
    sides =
        std::make_unique<Sides>(weights, SideOptions{recipe, &fast_table(), 1, {1, 48, 48}, {64, 48}, {}});
  }
  [[nodiscard]] Learner& learner() const { return sides->learner; }
};

Sequence sequence(int64_t tokens, int64_t prompt, uint64_t stream = 0) {
  return {random_tokens(tokens, 40, 2, stream), prompt};
}
StepResult accumulate(Learner& learner, std::span<const Sequence> batch, float dlogp = -1.0f) {
  return learner.accumulate(batch, 1.0f, Learner::EntropyGradient::none, [dlogp](const MicroBatch& m) {
    std::fill(m.dlogp.begin(), m.dlogp.end(), dlogp);
  });
}

TEST(Learner, RefusesSequencesThatDoNotFit) {
  Bench b;
  std::vector<float> logp(100);
  const auto score_one = [&](const Sequence& s) {
    const auto n = static_cast<size_t>(std::max<int64_t>(0, s.response()));
    b.learner().score(std::vector{sequence(4, 2), s}, 1.0f, std::span(logp).first(2 + n), {});
  };
  expect_error(ErrorCode::invalid_argument, {"sequence 1", "50 tokens", "max_length=48"},
               [&] { score_one(sequence(50, 20)); });
  expect_error(ErrorCode::invalid_argument, {"sequence 1", "5 prompt and 0 response"},
               [&] { score_one(sequence(5, 5)); });
  expect_error(ErrorCode::invalid_argument, {"sequence 1", "0 prompt and 5 response"},
               [&] { score_one(sequence(5, 0)); });
  expect_error(ErrorCode::invalid_argument, {"sequence 1"}, [&] { score_one({{}, 0}); });
  expect_error(ErrorCode::invalid_argument, {"sequence 0", "50 tokens"},
               [&] { (void)accumulate(b.learner(), std::vector{sequence(50, 20)}); });
  EXPECT_NO_THROW(score_one(sequence(49, 20))) << "48 rows and a last target";
}

TEST(Learner, RefusesTokensOutsideTheVocabulary) {
  Bench b;
  std::vector<float> logp(3);
  for (const size_t at : {1, 4}) {  // an input, and the last target
    for (const int32_t token : {40, -1}) {
      Sequence s = sequence(5, 2);
      s.tokens[at] = token;
      expect_error(ErrorCode::invalid_argument, {std::to_string(token), "[0, 40)"},
                   [&] { b.learner().score(std::vector{s}, 1.0f, logp, {}); });
    }
  }
}

TEST(Learner, RefusesOutputsOfAnotherSize) {
  Bench b;
  std::vector<float> logp(4), short_entropy(2);
  const auto batch = std::vector{sequence(5, 2)};
  expect_error(ErrorCode::invalid_argument, {"4", "3"}, [&] { b.learner().score(batch, 1.0f, logp, {}); });
  expect_error(ErrorCode::invalid_argument, {"2", "3"},
               [&] { b.learner().score(batch, 1.0f, std::span(logp).first(3), short_entropy); });
  expect_error(ErrorCode::invalid_argument, {"temperature=0"},
               [&] { b.learner().score(batch, 0.0f, std::span(logp).first(3), {}); });
}

TEST(Learner, AnEmptyBatchIsNoWork) {
  Bench b;
  b.learner().score({}, 1.0f, {}, {});
  const StepResult result = accumulate(b.learner(), {});
  EXPECT_EQ(result.tokens, 0);
}

TEST(Learner, LimitsAreChecked) {
  Bench b;
  for (const LearnerLimits& limits : {LearnerLimits{0, 48}, LearnerLimits{64, 0}, LearnerLimits{64, 225}}) {
    expect_error(ErrorCode::invalid_argument, {"learner"},
                 [&] { Learner(b.weights, b.sides->network, fast_table(), b.sides->pool, limits); });
  }
}

TEST(Learner, MicroBatchesFollowTheTokenLimit) {
  Bench b;
  const auto batch = std::vector{sequence(31, 1), sequence(35, 1), sequence(31, 2), sequence(2, 1)};
  std::vector<std::pair<int64_t, int64_t>> seen;
  const StepResult result =
      b.learner().accumulate(batch, 1.0f, Learner::EntropyGradient::none, [&](const MicroBatch& m) {
        seen.emplace_back(m.begin, m.end);
        EXPECT_EQ(m.logp.size(), m.dlogp.size());
        EXPECT_EQ(m.logp.size(), m.entropy.size());
      });
  // 30 + 34 rows fill a micro-batch of 64.
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 4}}));
  EXPECT_EQ(result.tokens, 30 + 34 + 30 + 1);
}

// --- experts -----------------------------------------------------------------------------------------

TEST(Router, LoadsAndTheirLossAreCounted) {
  Weights weights(tiny_experts(), DType::bf16, Purpose::training);
  fill_strong(weights, 3);
  // Scores that tie go to the lowest experts, and all probabilities are 1/6.
  const TensorView& router = weights.at("layers.0.router").master;
  std::fill_n(router.as<float>(), router.size(), 0.0f);
  weights.round_masters();
  Sides sides(weights, {"bf16", &fast_table(), 1, {1, 48, 48}, {64, 48}, {}});
  const auto batch = std::vector{sequence(31, 1), sequence(35, 1), sequence(31, 2)};
  const auto gradient = [&](double coefficient) {
    return sides.learner.accumulate(
        batch, 1.0f, Learner::EntropyGradient::none,
        [](const MicroBatch& m) { std::fill(m.dlogp.begin(), m.dlogp.end(), 0.0f); }, coefficient);
  };
  const StepResult result = gradient(0);
  const int64_t tokens = 30 + 34 + 30;
  ASSERT_EQ(result.router.experts, 6);
  ASSERT_EQ(result.router.load.size(), 12u);
  for (size_t e = 0; e < 6; ++e) EXPECT_EQ(result.router.load[e], e < 3 ? tokens : 0) << e;
  int64_t second = 0;
  for (size_t e = 6; e < 12; ++e) second += result.router.load[e];
  EXPECT_EQ(second, 3 * tokens);
  // Layer 0 gives 3; the other is spread unevenly and gives more.
  EXPECT_GT(result.router.aux_loss, 3.0);
  EXPECT_LT(result.router.aux_loss, 10.0);
  for (const Parameter& p : weights.parameters()) EXPECT_EQ(*p.grad.as<float>(), 0.0f) << p.spec.name;
  // The coefficient alone moves the routers.
  (void)gradient(0.01);
  double norm = 0;
  const TensorView& grad = weights.at("layers.1.router").grad;
  for (int64_t i = 0; i < grad.size(); ++i) norm += std::abs(static_cast<double>(grad.as<float>()[i]));
  EXPECT_GT(norm, 0.0);
}

TEST(Router, DenseModelsHaveNone) {
  Bench b;
  const StepResult result = accumulate(b.learner(), std::vector{sequence(5, 2)});
  EXPECT_TRUE(result.router.load.empty());
  EXPECT_EQ(result.router.aux_loss, 0.0);
}

// --- non-finite values -------------------------------------------------------------------------------

struct Damage {
  const char* parameter;
  float value;
  const char* found;
};

/// Where the damage is found, "" when nowhere.
std::string found(const std::string& recipe, const Damage& damage) {
  Bench b(recipe);
  const auto batch = std::vector{sequence(6, 2), sequence(9, 3, 1)};
  EXPECT_EQ(b.learner().locate_non_finite(batch), "");
  const Parameter& p = b.weights.at(damage.parameter);
  const int64_t row = p.spec.name == "embed" ? batch[0].tokens[1] : 0;
  p.master.row<float>(row)[0] = damage.value;
  b.weights.round_masters();
  b.sides->cache.refresh(b.learner().context());
  return b.learner().locate_non_finite(batch);
}

TEST(NonFinite, TheFirstModuleIsNamed) {
  const std::vector<Damage> table = {{"embed", kNaN, "embed, row 1, column 0: nan"},
                                     {"layers.0.attn_norm", kInf, "layers.0.attn_norm, row 0, column 0: "},
                                     {"layers.0.qkv", kNaN, "layers.0.qkv, row 0, column 0: nan"},
                                     {"layers.0.k_norm", kNaN, "layers.0.attn, row 0, column 0: nan"},
                                     {"layers.1.o", kNaN, "layers.1.o, row 0, column 0: nan"},
                                     {"layers.1.gate_up", kNaN, "layers.1.gate_up, row 0, column 0: nan"},
                                     {"layers.1.down", kNaN, "layers.1.down, row 0, column 0: nan"},
                                     {"final_norm", kNaN, "final_norm, row 0, column 0: nan"},
                                     {"lm_head", kNaN, "lm_head, row 0, column 0: nan"}};
  for (const char* recipe : {"bf16", "nvfp4_per_token"}) {
    for (const Damage& damage : table) {
      const std::string text = found(recipe, damage);
      EXPECT_TRUE(text.starts_with(damage.found))
          << recipe << " " << damage.parameter << ": '" << text << "'";
    }
  }
}

TEST(NonFinite, InfinitiesAreFoundWhereTheyReachAnOutput) {
  const Damage damage{"layers.1.down", -kInf, ""};
  EXPECT_TRUE(found("bf16", damage).starts_with("layers.1.down, row 0, column 0: "));
  // Transformer Engine's quantizer saturates: the codes of an infinity are those of the largest value, and
  // the forward pass is finite.
  EXPECT_EQ(found("nvfp4_per_token", damage), "weight of layers.1.down, row 0, column 0: -inf");
}

TEST(NonFinite, TheProbeOfTheCallerStays) {
  class Count : public Probe {
   public:
    void value(const Tap&, const TensorView&) override { ++calls; }
    int calls = 0;
  };
  Bench b;
  Count count;
  b.learner().set_probe(&count);
  EXPECT_EQ(b.learner().locate_non_finite(std::vector{sequence(6, 2)}), "");
  EXPECT_EQ(count.calls, 0);
  EXPECT_THROW((void)b.learner().locate_non_finite(std::vector{sequence(60, 2)}), Error);
  std::vector<float> logp(4);
  b.learner().score(std::vector{sequence(6, 2)}, 1.0f, logp, {});
  EXPECT_GT(count.calls, 0) << "after an error, too";
}

/// All that an update may change.
std::vector<std::byte> state(const Weights& weights) {
  std::vector<std::byte> all;
  for (const Parameter& p : weights.parameters()) {
    for (const TensorView& t : {p.weight, p.master, p.m, p.v}) {
      const auto bytes = bytes_of(t);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }
  return all;
}

TEST(NonFinite, GradientsAreNotApplied) {
  for (const float bad : {kNaN, kInf}) {
    Bench b;
    const auto before = state(b.weights);
    const int64_t version = b.weights.version();
    StepResult result = accumulate(b.learner(), std::vector{sequence(6, 2)}, bad);
    // Everything is spoiled; lm_head comes first on the way back.
    expect_error(ErrorCode::non_finite, {"update 7", "lm_head", "not applied"},
                 [&] { b.learner().apply({}, 7, result); });
    EXPECT_TRUE(state(b.weights) == before);
    EXPECT_EQ(b.weights.version(), version);
  }
  // The last parameter, so that a check inside the loop of updates would come too late.
  Bench b;
  StepResult result = accumulate(b.learner(), std::vector{sequence(6, 2)});
  b.weights.parameters().back().grad.as<float>()[3] = kInf;
  const auto before = state(b.weights);
  expect_error(ErrorCode::non_finite, {"lm_head"}, [&] { b.learner().apply({}, 1, result); });
  EXPECT_TRUE(state(b.weights) == before);
}

// --- optimizer ---------------------------------------------------------------------------------------

/// AdamW in FP64 on one element.
struct Element {
  double x, m = 0, v = 0;
  void step(double g, int64_t t, const OptimizerConfig& c, double decay) {
    m = static_cast<double>(c.beta1) * m + (1 - static_cast<double>(c.beta1)) * g;
    v = static_cast<double>(c.beta2) * v + (1 - static_cast<double>(c.beta2)) * g * g;
    const double mhat = m / (1 - std::pow(static_cast<double>(c.beta1), static_cast<double>(t)));
    const double vhat = v / (1 - std::pow(static_cast<double>(c.beta2), static_cast<double>(t)));
    x -= static_cast<double>(c.lr) * (mhat / (std::sqrt(vhat) + static_cast<double>(c.eps)) + decay * x);
  }
};

void fill_gradients(const Weights& weights, uint64_t seed, float scale) {
  for (size_t i = 0; i < weights.parameters().size(); ++i) {
    const TensorView& g = weights.parameters()[i].grad;
    for (int64_t j = 0; j < g.size(); ++j) {
      const auto word = Philox::generate(seed, static_cast<uint64_t>(j), i)[0];
      g.as<float>()[j] = scale * (static_cast<float>(word >> 8) * 0x1p-23f - 1.0f);
    }
  }
}

void check_adamw(const OptimizerConfig& config, float gradient_scale) {
  Bench b;
  std::vector<std::vector<Element>> expected;
  for (const Parameter& p : b.weights.parameters()) {
    expected.emplace_back();
    for (int64_t i = 0; i < p.master.size(); ++i) {
      expected.back().push_back({static_cast<double>(p.master.as<float>()[i])});
    }
  }
  for (int64_t update = 1; update <= 4; ++update) {
    fill_gradients(b.weights, static_cast<uint64_t>(update), gradient_scale);
    double sum = 0;
    for (const Parameter& p : b.weights.parameters()) {
      for (int64_t i = 0; i < p.grad.size(); ++i)
        sum += std::pow(static_cast<double>(p.grad.as<float>()[i]), 2);
    }
    const double norm = std::sqrt(sum),
                 clip = std::min(1.0, static_cast<double>(config.max_grad_norm) / (norm + 1e-6));
    for (size_t i = 0; i < expected.size(); ++i) {
      const Parameter& p = b.weights.parameters()[i];
      const double decay = p.spec.rows > 1 ? static_cast<double>(config.weight_decay) : 0.0;
      for (size_t j = 0; j < expected[i].size(); ++j) {
        expected[i][j].step(static_cast<double>(p.grad.as<float>()[j]) * clip, update, config, decay);
      }
    }
    const int64_t version = b.weights.version();
    StepResult result;
    b.learner().apply(config, update, result);
    EXPECT_EQ(b.weights.version(), version + 1);
    EXPECT_NEAR(result.grad_norm, norm, 1e-12 * norm);
    EXPECT_NEAR(static_cast<double>(result.clip_scale), clip, 1e-7 * clip);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Parameter& p = b.weights.parameters()[i];
      for (size_t j = 0; j < expected[i].size(); ++j) {
        const Element& e = expected[i][j];
        const float master = p.master.as<float>()[j];
        ASSERT_NEAR(master, e.x, 1e-6 * std::abs(e.x) + 1e-5 * static_cast<double>(config.lr))
            << p.spec.name << j;
        ASSERT_NEAR(p.m.as<float>()[j], e.m, 1e-6 * static_cast<double>(gradient_scale)) << p.spec.name << j;
        ASSERT_EQ(p.weight.as<bf16>()[j].bits, bf16(master).bits) << p.spec.name << j;
      }
    }
  }
}

TEST(Optimizer, MatchesAdamWInFp64) {
  OptimizerConfig config;
  config.lr = 1e-2f;
  config.max_grad_norm = 1e9f;
  check_adamw(config, 0.1f);
  config.weight_decay = 0.3f;
  config.beta1 = 0.8f;
  config.beta2 = 0.99f;
  config.eps = 1e-4f;
  check_adamw(config, 0.1f);
}

TEST(Optimizer, ClipsByTheNormOfAllGradients) {
  OptimizerConfig config;
  config.max_grad_norm = 0.5f;
  config.eps = 1e-3f;  // with a tiny eps, Adam hides the scale of its gradients
  check_adamw(config, 10.0f);
  config.max_grad_norm = 1e6f;  // no clipping
  check_adamw(config, 1e-3f);
}

TEST(Optimizer, TrainsATinyModelToRememberASequence) {
  Bench b("nvfp4_per_token");
  const auto batch = std::vector{sequence(24, 2)};
  const auto mean = [&] {
    const Scores s = score(b.learner(), batch);
    double sum = 0;
    for (const float x : s.logp) sum += static_cast<double>(x);
    return sum / static_cast<double>(s.logp.size());
  };
  const double before = mean();
  OptimizerConfig config;
  config.lr = 5e-3f;
  for (int64_t update = 1; update <= 40; ++update) {
    StepResult result = accumulate(b.learner(), batch, -1.0f / 22);
    b.learner().apply(config, update, result);
    b.sides->cache.refresh(b.learner().context());
  }
  EXPECT_LT(before, -2.0);
  EXPECT_GT(mean(), -0.1);
}

}  // namespace
}  // namespace minite
