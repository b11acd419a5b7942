// What is sampled depends on (weights, prompt, seed, request id) and the parameters; what is recorded is the
// log-prob of the full softmax.
#include <cmath>
#include <numeric>

#include "invariance/invariance.h"
#include "support/packed_run.h"

namespace minite::invariance {
namespace {
using namespace test_support;

/// A model and its sampler on the fastest table.
struct Bench {
  ModelConfig config = tiny_config();
  Weights weights{config, DType::bf16, Purpose::inference};
  std::vector<SampleRequest> requests = requests_of({3, 30, 8, 66, 1, 12}, config.vocab_size);

  Bench() {
    fill_strong(weights, 71);
    // A flatter head, so that several tokens are likely.
    const Parameter& head = weights.at("lm_head");
    for (int64_t i = 0; i < head.master.size(); ++i) head.master.as<float>()[i] *= 0.5f;
    weights.round_masters();
  }
};

/// Inference has no learner: network and sampler only.
struct Side {
  ThreadPool pool;
  WeightCache cache;
  Network network;
  Sampler sampler;
  Side(const Weights& weights, const OpTable& table = fast_table(), int threads = 1,
       SamplerLimits limits = {33, 128, 4096})
      : pool(threads),
        cache(weights),
        network(weights, cache, resolve("nvfp4_per_token", {}, linear_modules(weights.config()), 2), table,
                Policy{}),
        sampler(network, table, pool, limits) {
    const Buffer scratch(network.scratch(128, 128, threads));
    cache.refresh({&table, &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}});
  }
};

SampleParams params(uint64_t seed, float temperature = 1.0f, int64_t top_k = 0, float top_p = 1.0f) {
  return {temperature, top_k, top_p, 20, seed};
}
std::vector<std::vector<int32_t>> tokens_of(const std::vector<Sample>& samples) {
  std::vector<std::vector<int32_t>> tokens;
  for (const Sample& s : samples) tokens.push_back(s.tokens);
  return tokens;
}

/// Probabilities of softmax(logits / temperature) of the step that chose each token, in FP64.
struct Step {
  int32_t token;
  float logp, entropy;
  std::vector<double> logits;

  [[nodiscard]] std::vector<double> log_softmax(double temperature) const {
    std::vector<double> z = logits;
    for (double& x : z) x /= temperature;
    const double top = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (const double x : z) sum += std::exp(x - top);
    for (double& x : z) x -= top + std::log(sum);
    return z;
  }
  /// Tokens with a larger logit.
  [[nodiscard]] int64_t rank() const {
    const auto at = static_cast<size_t>(token);
    return std::count_if(logits.begin(), logits.end(), [&](double x) { return x > logits[at]; });
  }
};

/// Collects the logits of every pass, and afterwards gives each to its token.
class LogitsProbe : public Probe {
 public:
  void value(const Tap& at, const TensorView& value) override {
    if (at.module != "lm_head") return;
    for (int64_t r = 0; r < value.rows; ++r) {
      rows.emplace_back(value.row<float>(r), value.row<float>(r) + value.cols);
    }
  }
  std::vector<std::vector<double>> rows;
};

/// One request at a time, so that pass and token correspond.
std::vector<Step> steps(Side& side, const std::vector<SampleRequest>& requests, const SampleParams& p) {
  std::vector<Step> all;
  for (const SampleRequest& request : requests) {
    LogitsProbe probe;
    side.sampler.set_probe(&probe);
    const Sample sample = side.sampler.generate(std::vector{request}, p)[0];
    side.sampler.set_probe(nullptr);
    EXPECT_EQ(probe.rows.size(), sample.tokens.size());
    for (size_t i = 0; i < sample.tokens.size(); ++i) {
      all.push_back({sample.tokens[i], sample.logp[i], sample.entropy[i], probe.rows[i]});
    }
  }
  return all;
}

TEST(Sampling, SameSeedSameTokensEverywhere) {
  Bench b;
  const SampleParams p = params(1, 0.9f, 12, 0.95f);
  const auto expected = Side(b.weights).sampler.generate(b.requests, p);
  for (const OpTable* table : cpu_tables()) {
    for (const int threads : {1, 3}) {
      for (const int64_t slots : {1, 4}) {
        if (table == &ref::table() && (threads == 1 || slots == 1)) continue;
        Side side(b.weights, *table, threads, {slots, 128, 40});
        EXPECT_TRUE(same_bits(side.sampler.generate(b.requests, p), expected))
            << table->name << slots << threads;
        EXPECT_TRUE(same_bits(side.sampler.generate(b.requests, p), expected)) << "a second call";
      }
    }
  }
}

TEST(Sampling, AnotherSeedDiffers) {
  Bench b;
  Side side(b.weights);
  const auto one = side.sampler.generate(b.requests, params(1)),
             two = side.sampler.generate(b.requests, params(2));
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NE(one[i].tokens, two[i].tokens) << i;
}

TEST(Sampling, GreedyIgnoresTheSeedAndEqualsTopOne) {
  Bench b;
  Side side(b.weights);
  const auto greedy = side.sampler.generate(b.requests, params(1, 0.0f));
  EXPECT_TRUE(same_bits(side.sampler.generate(b.requests, params(2, 0.0f)), greedy));
  EXPECT_TRUE(same_bits(side.sampler.generate(b.requests, params(3, 1.0f, 1)), greedy));
  EXPECT_EQ(tokens_of(side.sampler.generate(b.requests, params(4, 0.5f, 1))), tokens_of(greedy));
  EXPECT_EQ(tokens_of(side.sampler.generate(b.requests, params(5, 1.0f, 0, 1e-6f))), tokens_of(greedy));
  for (const Step& s : steps(side, b.requests, params(1, 0.0f))) EXPECT_EQ(s.rank(), 0);
}

TEST(Sampling, TopKAndTopPRestrictTheSet) {
  Bench b;
  Side side(b.weights);
  int64_t worst = 0;
  for (const Step& s : steps(side, b.requests, params(7, 1.5f, 5))) {
    EXPECT_LT(s.rank(), 5);
    worst = std::max(worst, s.rank());
  }
  EXPECT_GE(worst, 3) << "the set must be used, not only its head";
  int64_t deep = 0;
  for (const Step& s : steps(side, b.requests, params(7, 1.5f, 0, 0.8f))) {
    // Entries in front of a kept one hold less than top_p.
    const auto log_p = s.log_softmax(1.5);
    double before = 0;
    for (size_t j = 0; j < log_p.size(); ++j) {
      if (s.logits[j] > s.logits[static_cast<size_t>(s.token)]) before += std::exp(log_p[j]);
    }
    EXPECT_LT(before, 0.8 + 1e-5);
    deep += s.rank() > 1 ? 1 : 0;
  }
  EXPECT_GT(deep, 3);
}

TEST(Sampling, RecordsTheFullSoftmaxAtTheSamplingTemperature) {
  Bench b;
  Side side(b.weights);
  for (const SampleParams& p :
       {params(7), params(7, 0.6f), params(7, 1.7f, 4), params(7, 1.2f, 0, 0.7f), params(7, 0.0f)}) {
    for (const Step& s : steps(side, b.requests, p)) {
      const auto log_p = s.log_softmax(p.temperature > 0 ? static_cast<double>(p.temperature) : 1.0);
      double entropy = 0;
      for (const double x : log_p) entropy -= std::exp(x) * x;
      ASSERT_NEAR(s.logp, log_p[static_cast<size_t>(s.token)], 3e-6 * (1 + std::abs(s.logp)));
      ASSERT_NEAR(s.entropy, entropy, 1e-5);
    }
  }
}

TEST(Sampling, TheRequestIdKeysTheNoise) {
  Bench b;
  Side side(b.weights);
  const auto expected = side.sampler.generate(b.requests, params(9));
  std::vector<SampleRequest> reversed(b.requests.rbegin(), b.requests.rend());
  auto back = side.sampler.generate(reversed, params(9));
  std::reverse(back.begin(), back.end());
  EXPECT_TRUE(same_bits(back, expected));
  EXPECT_TRUE(same_bits(side.sampler.generate(std::vector{b.requests[3]}, params(9)), {expected[3]}));
  const auto prompt = b.requests[0].prompt;
  const auto group =
      side.sampler.generate(std::vector<SampleRequest>{{prompt, 5}, {prompt, 6}, {prompt, 5}}, params(9));
  EXPECT_EQ(group[0].tokens, group[2].tokens);
  EXPECT_NE(group[0].tokens, group[1].tokens);
}

/// Frequencies over many requests follow the softmax: chi-square with 7 degrees of freedom.
TEST(Sampling, FrequenciesFollowTheSoftmax) {
  constexpr int64_t kDraws = 20000, kVocab = 8;
  const std::vector<float> row = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f, -0.5f, 1.5f, -2.0f};
  std::vector<float> logits;
  std::vector<uint64_t> request;
  for (int64_t i = 0; i < kDraws; ++i) {
    logits.insert(logits.end(), row.begin(), row.end());
    request.push_back(static_cast<uint64_t>(i));
  }
  const std::vector<int32_t> pos(kDraws, 3);
  std::vector<int32_t> token(kDraws);
  ThreadPool pool(2);
  const Buffer scratch(int64_t{2} * kVocab * 4);
  ops::choose({&fast_table(), &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}},
              {{logits.data(), kDraws, kVocab}, 1.25f, 0, 1.0f, 17, request, pos, token});
  double total = 0;
  for (const float x : row) total += std::exp(static_cast<double>(x) / 1.25);
  double chi = 0;
  for (int32_t v = 0; v < kVocab; ++v) {
    const double expected =
        kDraws * std::exp(static_cast<double>(row[static_cast<size_t>(v)]) / 1.25) / total;
    const double seen = static_cast<double>(std::count(token.begin(), token.end(), v));
    chi += (seen - expected) * (seen - expected) / expected;
  }
  EXPECT_LT(chi, 24.3) << "p = 0.001";
}

}  // namespace
}  // namespace minite::invariance
