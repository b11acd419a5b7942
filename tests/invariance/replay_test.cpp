// Router replay: experts that the sampler recorded, in prefill and decode, taken by the learner. With matched
// recipes it changes no bit; with others the experts are the sampler's and weights and gradients stay live.
#include "invariance/invariance.h"
#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

SampleParams recording(int64_t new_tokens) {
  SampleParams p;
  p.max_new_tokens = new_tokens;
  p.seed = 3;
  p.return_routed_experts = true;
  return p;
}

std::vector<Routes> routes_of(const std::vector<Sample>& samples) {
  std::vector<Routes> all;
  for (const Sample& s : samples) all.push_back(s.routes);
  return all;
}

/// Scores with routes in and out.
struct Replayed {
  Scores scores;
  std::vector<Routes> used, live;
};
Replayed replayed(Learner& learner, const std::vector<Sequence>& sequences,
                  const std::vector<Routes>& replay) {
  size_t n = 0;
  for (const Sequence& s : sequences) n += static_cast<size_t>(s.response());
  Replayed r{{std::vector<float>(n), std::vector<float>(n)},
             std::vector<Routes>(sequences.size()),
             std::vector<Routes>(sequences.size())};
  learner.score(sequences, 1.0f, r.scores.logp, r.scores.entropy, {replay, r.used, r.live});
  return r;
}

/// Sum over sequences.
RouteDifference difference(const std::vector<Routes>& a, const std::vector<Routes>& b) {
  RouteDifference d;
  for (size_t i = 0; i < a.size(); ++i) d += compare_routes(a[i], b[i]);
  return d;
}

/// Main gradients of a plain objective, as bytes, and the routes that the pass took.
struct Update {
  std::vector<std::byte> gradient;
  std::vector<Routes> used;
};
Update update(Weights& weights, Learner& learner, const std::vector<Sequence>& sequences,
              const std::vector<Routes>& replay) {
  Update u{{}, std::vector<Routes>(sequences.size())};
  (void)learner.accumulate(sequences, 1.0f, Learner::EntropyGradient::none,
                           [](const MicroBatch& m) {
                             for (size_t i = 0; i < m.dlogp.size(); ++i)
                               m.dlogp[i] = i % 3 == 0 ? -0.5f : 1.0f;
                           },
                           0.01, {replay, u.used, {}});
  for (const Parameter& p : weights.parameters()) {
    const auto bytes = bytes_of(p.grad);
    u.gradient.insert(u.gradient.end(), bytes.begin(), bytes.end());
  }
  return u;
}

class Replay : public RecipeTest {};
MINITE_RECIPES(Replay, Which::row_local);

TEST_P(Replay, OfMatchedRecipesChangesNoBit) {
  const ModelConfig config = tiny_experts();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 21);
  Sides sides(weights, {.recipe = GetParam(), .threads = 2, .sampler = {3, 192, 64}, .learner = {200, 192}});
  const auto requests = requests_of({1, 66, 17, 3, 50}, config.vocab_size);
  const auto samples = sides.sampler.generate(requests, recording(20));
  const auto sequences = sequences_of(requests, samples);
  const auto routes = routes_of(samples);
  for (size_t i = 0; i < routes.size(); ++i) {
    ASSERT_EQ(routes[i].tokens(), static_cast<int64_t>(sequences[i].tokens.size())) << "prompt and response";
    EXPECT_EQ(routes[i].row(routes[i].tokens() - 1, 0)[0], -1) << "the last token was never read";
    EXPECT_GE(routes[i].row(0, 1)[0], 0) << "the prompt's tokens have routes too";
  }
  const Replayed off = replayed(sides.learner, sequences, {}),
                 on = replayed(sides.learner, sequences, routes);
  EXPECT_TRUE(same_bits(off.scores, scores_of(samples)));
  EXPECT_TRUE(same_bits(on.scores, off.scores));
  for (const auto& side : {off.used, off.live, on.used, on.live}) {
    const RouteDifference d = difference(side, routes);
    EXPECT_EQ(d.experts + d.order, 0);
    EXPECT_EQ(d.weight_abs_max, 0.0);
    EXPECT_EQ(d.rows, off.used.size() > 0 ? difference(routes, routes).rows : 0);
  }
  const Update free = update(weights, sides.learner, sequences, {}),
               frozen = update(weights, sides.learner, sequences, routes);
  EXPECT_TRUE(free.gradient == frozen.gradient);
}

/// A BF16 learner and an NVFP4 sampler over the same weights.
struct Mismatched {
  ModelConfig config = tiny_experts();
  Weights weights{config, DType::bf16, Purpose::training};
  Sides learner, sampler;
  std::vector<SampleRequest> requests = requests_of({4, 40, 9}, config.vocab_size);
  std::vector<Sample> samples;
  std::vector<Sequence> sequences;

  static Weights& filled(Weights& w) {
    fill_strong(w, 22);
    return w;
  }
  Mismatched()
      : learner(filled(weights), {.recipe = "bf16"}), sampler(weights, {.recipe = "nvfp4_per_token"}) {
    samples = sampler.sampler.generate(requests, recording(30));
    sequences = sequences_of(requests, samples);
  }
};

TEST(ReplayMismatch, TakesTheSamplersExpertsWithLiveWeights) {
  Mismatched m;
  const auto routes = routes_of(m.samples);
  const Replayed off = replayed(m.learner.learner, m.sequences, {}),
                 on = replayed(m.learner.learner, m.sequences, routes);
  const RouteDifference before = difference(off.used, routes), after = difference(on.used, routes);
  EXPECT_GT(before.experts, 0) << "4-bit activations move some tokens to other experts";
  EXPECT_EQ(after.experts, 0);
  EXPECT_EQ(after.order, 0) << "slots stand as recorded";
  EXPECT_GT(after.weight_abs_sum, 0.0) << "weights are those of the learner's own scores";
  EXPECT_GT(difference(on.live, routes).experts, 0) << "the live selection is still measured";
  EXPECT_FALSE(same_bits(on.scores, off.scores));
  // Experts alone do not remove a gap; whether they narrow it depends on the model.
  EXPECT_GT(gap_between(on.scores.logp, scores_of(m.samples).logp).abs_mean, 0.0);
}

/// Both learner passes take the same experts; the weights of replayed experts are renormalized over them.
TEST(ReplayMismatch, HoldsInTheUpdatePassAndWeightsSumToOne) {
  Mismatched m;
  const auto routes = routes_of(m.samples);
  const Update u = update(m.weights, m.learner.learner, m.sequences, routes);
  const RouteDifference d = difference(u.used, routes);
  EXPECT_EQ(d.experts + d.order, 0);
  const Routes& first = u.used.front();
  for (int64_t t = 0; t + 1 < first.tokens(); ++t) {
    float sum = 0;
    for (size_t i = 0; i < 3; ++i) sum += first.weight[static_cast<size_t>(t * 6) + i];
    EXPECT_NEAR(sum, 1.0f, 1e-6f);
  }
  EXPECT_TRUE(update(m.weights, m.learner.learner, m.sequences, {}).gradient != u.gradient);
}

TEST(ReplayMismatch, RowsThatWereNotRecordedRouteLive) {
  Mismatched m;
  std::vector<Routes> none;
  for (const Sequence& s : m.sequences) none.emplace_back(static_cast<int64_t>(s.tokens.size()), 2, 3);
  const Replayed off = replayed(m.learner.learner, m.sequences, {}),
                 on = replayed(m.learner.learner, m.sequences, none);
  EXPECT_TRUE(same_bits(on.scores, off.scores));
  EXPECT_EQ(difference(on.used, off.used).experts, 0);
}

/// Micro-batches and threads cut a replayed pass as they cut any other.
TEST(ReplayMismatch, DoesNotDependOnMicroBatchesOrThreads) {
  Mismatched m;
  const auto routes = routes_of(m.samples);
  const Replayed want = replayed(m.learner.learner, m.sequences, routes);
  for (const OpTable* table : cpu_tables()) {
    for (const int threads : {1, 2}) {
      Sides other(m.weights, {"bf16", table, threads, {33, 192, 4096}, {80, 192}, {}});
      const Replayed got = replayed(other.learner, m.sequences, routes);
      EXPECT_TRUE(same_bits(got.scores, want.scores)) << table->name << " " << threads;
      EXPECT_EQ(got.live.front().expert, want.live.front().expert);
    }
  }
}

TEST(ReplayInput, ThatDoesNotFitIsRefused) {
  Mismatched m;
  auto routes = routes_of(m.samples);
  routes[1].expert[6 * 5] = 6;  // token 5, layer 0, slot 0
  expect_error(ErrorCode::invalid_argument, {"sample 1, token 5, layer 0", "expert 6", "[0, 6)"},
               [&] { (void)replayed(m.learner.learner, m.sequences, routes); });
  routes.pop_back();
  expect_error(ErrorCode::invalid_argument, {"2 samples recorded, 3 to replay"},
               [&] { (void)replayed(m.learner.learner, m.sequences, routes); });
  Weights dense(tiny_config(), DType::bf16, Purpose::training);
  fill_strong(dense, 23);
  Sides sides(dense, {.recipe = "bf16"});
  expect_error(ErrorCode::invalid_argument, {"num_experts=0"},
               [&] { (void)replayed(sides.learner, m.sequences, {}); });
  expect_error(ErrorCode::invalid_argument, {"return_routed_experts", "num_experts=0"},
               [&] { (void)sides.sampler.generate(m.requests, recording(2)); });
}

}  // namespace
}  // namespace minite::invariance
