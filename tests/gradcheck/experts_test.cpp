// A mixture of experts in FP64: its ops against central differences, and a whole layer against the formula
// written out token by token.
#include <numeric>

#include "gradcheck/differences.h"
#include "model/network.h"
#include "support/tiny_model.h"

namespace minite::gradcheck {
namespace {

constexpr int64_t kTokens = 6, kExperts = 5, kTopK = 3;

TEST(Experts, RouteAndBalance) {
  Reference ref;
  for (const auto weights : {ExpertWeights::renormalized, ExpertWeights::probabilities}) {
    for (const float balance : {0.0f, 0.5f}) {
      Matrix x = Matrix::random(kTokens, kExperts, 31, 3.0), prob(kTokens, kExperts), w(kTokens, kTopK);
      Matrix c = Matrix::random(kTokens, kTopK, 32), dx(kTokens, kExperts);
      std::vector<int32_t> expert(kTokens * kTopK), offset(kExperts + 1), row_of(expert.size()),
          slot_of(expert.size());
      const Loss loss = [&] {
        ops::route(ref.context(), {x.view(), kTopK, weights, prob.view(), expert, w.view()});
        ops::dispatch(ref.context(), {expert, offset, row_of, slot_of});
        const double aux = ops::router_balance(ref.context(), prob.view(), Groups{offset});
        return w.dot(c) + static_cast<double>(balance) * aux;
      };
      (void)loss();
      ops::route_backward(ref.context(), {prob.view(), expert, w.view(), c.view(), weights, balance,
                                          Groups{offset}, dx.view()});
      check_elements("dlogits", x.data, dx.data, loss);
    }
  }
}

/// Replayed experts are constants; their weights, and the gradient, come from the live scores of all experts.
TEST(Experts, ReplayedRoute) {
  Reference ref;
  const std::vector<int32_t> replay = {4, 0, 2, 2, 4, 1, 0, 1, 2, -1, -1, -1, 3, 0, 2, 0, 4, 1};
  for (const auto weights : {ExpertWeights::renormalized, ExpertWeights::probabilities}) {
    Matrix x = Matrix::random(kTokens, kExperts, 37, 3.0), prob(kTokens, kExperts), w(kTokens, kTopK);
    Matrix c = Matrix::random(kTokens, kTopK, 38), dx(kTokens, kExperts);
    std::vector<int32_t> expert(replay.size()), live(replay.size()), offset(kExperts + 1),
        row_of(expert.size()), slot_of(expert.size());
    const Loss loss = [&] {
      ops::route(ref.context(), {x.view(), kTopK, weights, prob.view(), expert, w.view(), replay, live});
      ops::dispatch(ref.context(), {expert, offset, row_of, slot_of});
      return w.dot(c) + 0.5 * ops::router_balance(ref.context(), prob.view(), Groups{offset});
    };
    (void)loss();
    EXPECT_NE(expert, live) << "the case must replay something else";
    ops::route_backward(ref.context(),
                        {prob.view(), expert, w.view(), c.view(), weights, 0.5f, Groups{offset}, dx.view()});
    check_elements("dlogits", x.data, dx.data, loss);
    // A replayed expert keeps its gradient however small its score is: nothing was zeroed after the top-k.
    EXPECT_NE(dx.data[3 * 0 + 0], 0.0);
  }
}

TEST(Experts, PermuteAndCombine) {
  Reference ref;
  constexpr int64_t kCols = 19;
  const std::vector<int32_t> expert = {4, 0, 2, 2, 4, 1, 0, 1, 2, 4, 2, 0, 1, 0, 2, 0, 4, 1};
  std::vector<int32_t> offset(kExperts + 1), row_of(expert.size()), slot_of(expert.size());
  ops::dispatch(ref.context(), {expert, offset, row_of, slot_of});
  Matrix x = Matrix::random(kTokens, kCols, 33), packed(kTokens * kTopK, kCols), y(kTokens, kCols);
  Matrix scale = Matrix::random(kTokens * kTopK, kCols, 34), w = Matrix::random(kTokens, kTopK, 35);
  Matrix c = Matrix::random(kTokens, kCols, 36);
  const Loss loss = [&] {
    ops::permute(ref.context(), {x.view(), slot_of, packed.view()});
    for (size_t i = 0; i < packed.data.size(); ++i) packed.data[i] *= scale.data[i];
    ops::combine(ref.context(), {packed.view(), row_of, w.view(), y.view()});
    return y.dot(c);
  };
  (void)loss();
  Matrix dpacked(kTokens * kTopK, kCols), dw(kTokens, kTopK), dx(kTokens, kCols);
  ops::combine_backward(ref.context(),
                        {c.view(), packed.view(), slot_of, w.view(), dpacked.view(), dw.view()});
  for (size_t i = 0; i < dpacked.data.size(); ++i) dpacked.data[i] *= scale.data[i];
  ops::combine(ref.context(), {dpacked.view(), row_of, {}, dx.view()});
  check_elements("dx", x.data, dx.data, loss);
  check_elements("dw", w.data, dw.data, loss);
}

/// Row `row` of a packed parameter of experts times x.
double product(const Parameter& p, int64_t row, const std::vector<double>& x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += p.weight.row<double>(row)[i] * x[i];
  return sum;
}

/// The MLP of layer 0 on one token, written out.
std::vector<double> one_token(const Weights& weights, const double* mid) {
  const ModelConfig& c = weights.config();
  const Parameter &gate_up = weights.at("layers.0.experts.gate_up"),
                  &down = weights.at("layers.0.experts.down");
  std::vector<double> x(mid, mid + c.hidden_size), out(x.size());
  const double mean = std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= weights.at("layers.0.mlp_norm").weight.as<double>()[i] /
            std::sqrt(mean + static_cast<double>(c.rms_norm_eps));
  }
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t e = 0; e < c.num_experts; ++e)
    order.emplace_back(-product(weights.at("layers.0.router"), e, x), e);
  std::sort(order.begin(), order.end());
  double total = 0;
  for (int64_t i = 0; i < (c.norm_topk_prob ? c.num_experts_per_tok : c.num_experts); ++i)
    total += std::exp(-order[static_cast<size_t>(i)].first);
  const int64_t f = c.moe_intermediate_size;
  for (int64_t i = 0; i < c.num_experts_per_tok; ++i) {
    const auto [logit, e] = order[static_cast<size_t>(i)];
    std::vector<double> inner;
    for (int64_t j = 0; j < f; ++j) {
      const double gate = product(gate_up, e * 2 * f + j, x), up = product(gate_up, e * 2 * f + f + j, x);
      inner.push_back(gate / (1 + std::exp(-gate)) * up);
    }
    for (int64_t d = 0; d < c.hidden_size; ++d)
      out[static_cast<size_t>(d)] += std::exp(-logit) / total * product(down, e * c.hidden_size + d, inner);
  }
  return out;
}

TEST(Experts, AreTheFormulaWrittenOut) {
  for (const bool norm : {true, false}) {
    ModelConfig config = test_support::tiny_experts();
    config.norm_topk_prob = norm;
    Weights weights(config, DType::f64, Purpose::training);
    test_support::fill_strong(weights, 41);
    WeightCache cache(weights);
    const auto resolved = resolve("fp32", {}, linear_modules(config), 2);
    const Policy policy;
    const LayerBuild build{"layers.0.", weights, cache, resolved, ref::table(), policy};
    const auto mlp = make_experts(build);
    constexpr int64_t kRows = 17;
    Matrix mid = Matrix::random(kRows, config.hidden_size, 42), out(kRows, config.hidden_size),
           normed(kRows, config.hidden_size), packed(kRows * config.num_experts_per_tok, config.hidden_size);
    Arena measure;
    (void)mlp->place(measure, kRows, Keep::for_backward, {});
    const Buffer memory(measure.peak());
    Arena arena(memory);
    MlpActivations act =
        mlp->place(arena, kRows, Keep::for_backward, {normed.view(), normed.view(), packed.view()});
    Reference ref;
    ref.scratch.resize(static_cast<size_t>(mlp->scratch(kRows, 1)));
    mlp->forward(ref.context(), 0, weights, mid.view(), act, out.view());
    for (int64_t t = 0; t < kRows; ++t) {
      const auto want = one_token(weights, mid.view().row<double>(t));
      for (int64_t d = 0; d < config.hidden_size; ++d) {
        const double y = out.view().row<double>(t)[d], expected = want[static_cast<size_t>(d)];
        ASSERT_NEAR(y, expected, 1e-12 * (1 + std::abs(expected))) << t << ", " << d;
      }
    }
  }
}

}  // namespace
}  // namespace minite::gradcheck
