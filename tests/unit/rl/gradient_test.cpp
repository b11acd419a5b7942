// Central differences in FP64 of the whole loss, for every aggregation and with TRIAGE in both
// normalizations.
#include <cmath>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

struct Case {
  std::string name;
  LossConfig config;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const Option& option : options<LossAggMode>()) {
    LossConfig c;
    c.loss_agg_mode = parse<LossAggMode>(option.name);
    if (c.loss_agg_mode == LossAggMode::seq_mean_token_sum_norm) c.loss_scale_factor = 300.0;
    out.push_back({std::string(option.name), c});
    c.rollout_is = RolloutIs::token;
    c.clip_ratio_c = 1.4;
    c.entropy_coef = 0.3;
    out.push_back({std::string(option.name) + " tis dual entropy", c});
    c.rollout_is = RolloutIs::sequence;
    c.rollout_is_threshold = {0.2, 5.0, OutOfRange::mask};
    out.push_back({std::string(option.name) + " sequence mask", c});
    LossConfig rejecting = c;
    rejecting.rollout_is_batch_normalize = true;
    rejecting.rollout_rs = parse_rollout_rs("token_k3,seq_mean_k1", "0.3,0.4_4");
    out.push_back({std::string(option.name) + " normalized, rejecting", rejecting});
    for (const Option& kl : options<KlLossType>()) {
      c.kl_loss_type = parse<KlLossType>(kl.name);
      c.kl_loss_coef = 0.7;
      out.push_back({std::string(option.name) + " " + std::string(kl.name), c});
    }
  }
  for (Normalization n : {Normalization::response, Normalization::global}) {
    for (const Option& scope : options<RepairScope>()) {
      if (scope.name == "q2") continue;  // its gradient is restricted on purpose, see below
      LossConfig c = triage_config(n);
      c.triage.repair.scope = parse<RepairScope>(scope.name);
      const std::string name = std::string(name_of(n)) + " " + std::string(scope.name);
      out.push_back({name, c});
      c.triage.repair.coef = 50.0;  // as strong as the policy term, so that its error would show
      c.triage.gate.scope = GateScope::whole;
      out.push_back({name + " strong", c});
    }
  }
  return out;
}

constexpr double kStep = 1e-6;

// Difference quotient of the loss of `response` with respect to one value of the batch.
double difference(Data& d, std::vector<double>& values, std::int64_t t, const Prepared& p,
                  std::int64_t response) {
  const double saved = values[t];
  values[t] = saved + kStep;
  const double up = run(d, p, response, response + 1).loss;
  const double high = values[t];
  values[t] = saved - kStep;
  const double down = run(d, p, response, response + 1).loss;
  const double low = values[t];
  values[t] = saved;
  return (up - down) / (high - low);
}

// Error of a central difference: rounding of the loss over the step, and h^2 times a third derivative.
double tolerance(const Result& response) { return 5e-16 * (1.0 + std::abs(response.loss)) / kStep + 1e-10; }

TEST(Gradient, MatchesCentralDifferences) {
  Data d = random_data({150, 64, 7, 90}, 11);
  add_reference(d, 11);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Prepared p = prepare(d.batch(), c.config);
    std::int64_t clipped = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      const Result r = run(d, p, i, i + 1);
      clipped += r.sums.clipped;
      const double tol = tolerance(r);
      for (std::int64_t t = d.offsets[i]; t < d.offsets[i + 1]; ++t) {
        if (d.mask[t] == 0) continue;
        EXPECT_NEAR(r.dlogp[t - d.offsets[i]], difference(d, d.live, t, p, i), tol)
            << "response " << i << " token " << t;
        EXPECT_NEAR(r.dentropy[t - d.offsets[i]], difference(d, d.entropy, t, p, i), tol) << "entropy " << t;
      }
    }
    EXPECT_GT(clipped, 20);  // both branches are covered
    EXPECT_LT(clipped, 200);
  }
}

// The straight-through gradient of gspo is the exact one where weights are equal within a response.
TEST(Gradient, GspoMatchesCentralDifferences) {
  Data d = random_data({150, 64, 7, 90, 40, 33}, 14);
  for (const Option& option : options<LossAggMode>()) {
    LossConfig c;
    c.loss_mode = LossMode::gspo;
    c.loss_agg_mode = parse<LossAggMode>(option.name);
    c.clip_ratio_low = c.clip_ratio_high = 0.01;
    c.rollout_is = RolloutIs::sequence;
    c.rollout_is_threshold = {0.1, 5.0, OutOfRange::truncate};
    if (c.loss_agg_mode == LossAggMode::seq_mean_token_sum_norm) c.loss_scale_factor = 300.0;
    const Prepared p = prepare(d.batch(), c);
    int clipped = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      const Result r = run(d, p, i, i + 1);
      clipped += r.sums.clipped > 0 ? 1 : 0;
      for (std::int64_t t = d.offsets[i]; t < d.offsets[i + 1]; ++t) {
        if (d.mask[t] == 0) continue;
        // All terms of the response move together, and so do their rounding errors.
        EXPECT_NEAR(r.dlogp[t - d.offsets[i]], difference(d, d.live, t, p, i), 10 * tolerance(r))
            << option.name;
      }
    }
    EXPECT_GT(clipped, 0);
    EXPECT_LT(clipped, 6);
  }
}

// geo_mean as gspo; sapo, off-policy masking and the bypass are exact with any weights.
TEST(Gradient, OtherObjectivesMatchCentralDifferences) {
  Data d = random_data({150, 64, 7, 90, 40, 33}, 16);
  const auto config = [](LossMode mode, RolloutIs level) {
    LossConfig c;
    c.loss_mode = mode;
    c.clip_ratio_low = c.clip_ratio_high = 0.3;
    c.rollout_is = level;
    c.rollout_is_threshold = {0.1, 5.0, OutOfRange::truncate};
    return c;
  };
  std::vector<Case> all = {{"geo_mean", config(LossMode::geo_mean, RolloutIs::geometric)},
                           {"sapo", config(LossMode::sapo, RolloutIs::token)},
                           {"opsm", config(LossMode::vanilla, RolloutIs::token)},
                           {"bypass", config(LossMode::vanilla, RolloutIs::none)}};
  all[2].config.opsm_delta = 0.0;
  all[3].config.bypass_mode = true;
  for (Case& each : all) {
    for (const Option& option : options<LossAggMode>()) {
      LossConfig& c = each.config;
      c.loss_agg_mode = parse<LossAggMode>(option.name);
      c.loss_scale_factor.reset();
      if (c.loss_agg_mode == LossAggMode::seq_mean_token_sum_norm) c.loss_scale_factor = 300.0;
      const Prepared p = prepare(d.batch(), c);
      for (std::int64_t i = 0; i < 6; ++i) {
        const Result r = run(d, p, i, i + 1);
        for (std::int64_t t = d.offsets[i]; t < d.offsets[i + 1]; ++t) {
          if (d.mask[t] == 0) continue;
          EXPECT_NEAR(r.dlogp[t - d.offsets[i]], difference(d, d.live, t, p, i), 10 * tolerance(r))
              << each.name << " " << option.name << " token " << t;
        }
      }
    }
  }
  EXPECT_GT(run(d, all[2].config).sums.opsm_masked, 0) << "the case must mask";
}

// The gradient of cispo leaves out how the ratio moves: d(-c A l) = -A (c + l dc/dl), and dc/dl = c inside.
TEST(Gradient, CispoDetachesTheRatio) {
  Data d = random_data({150, 64, 7, 90}, 15);
  for (double low : {0.2, 1.0}) {
    LossConfig c;
    c.loss_mode = LossMode::cispo;
    c.loss_agg_mode = LossAggMode::token_mean;
    c.clip_ratio_low = low;
    c.rollout_is = RolloutIs::token;
    const Prepared p = prepare(d.batch(), c);
    int clipped = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      const Result r = run(d, p, i, i + 1);
      for (std::int64_t t = d.offsets[i]; t < d.offsets[i + 1]; ++t) {
        if (d.mask[t] == 0) continue;
        const double ratio = std::exp(d.live[t] - d.old[t]);
        const bool outside = ratio > 1.28 || ratio < 1.0 - low;
        clipped += outside ? 1 : 0;
        const double g = r.dlogp[t - d.offsets[i]];
        EXPECT_NE(g, 0.0);
        EXPECT_NEAR(outside ? g : g * (1.0 + d.live[t]), difference(d, d.live, t, p, i), tolerance(r)) << t;
      }
      EXPECT_LE(r.sums.clipped, clipped);
    }
    EXPECT_GT(clipped, 20);
  }
}

// q2: selected tokens follow the difference quotient, the others are detached.
TEST(Gradient, Q2MatchesOnSelectedTokens) {
  Data d = random_data({150, 150, 40, 140}, 12);
  LossConfig c = triage_config(Normalization::response);
  c.triage.repair.scope = RepairScope::q2;
  c.triage.repair.coef = 50.0;
  LossConfig plain = c;
  plain.triage.repair.enable = false;
  const Prepared p = prepare(d.batch(), c);
  const Result without = run(d, plain);
  int selected = 0;
  int detached = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Result r = run(d, p, i, i + 1);
    for (std::int64_t t = d.offsets[i]; t < d.offsets[i + 1]; ++t) {
      if (d.mask[t] == 0) continue;
      const double g = r.dlogp[t - d.offsets[i]];
      if (d.advantage[t] > 0 && d.live[t] < d.sampler[t]) {
        EXPECT_NEAR(g, difference(d, d.live, t, p, i), tolerance(r)) << t;
        ++selected;
      } else {
        EXPECT_EQ(g, without.dlogp[t]) << t;
        ++detached;
      }
    }
  }
  EXPECT_GT(selected, 50);
  EXPECT_GT(detached, 50);
}

// The frozen quantities carry no gradient: moving them changes the loss only through prepare().
TEST(Gradient, RatioOneGivesMinusWeightedAdvantage) {
  Data d = random_data({20, 30}, 13);
  d.live = d.old;
  const LossConfig c = [] {
    LossConfig config;
    config.rollout_is = RolloutIs::token;
    return config;
  }();
  const Prepared p = prepare(d.batch(), c);
  const Result r = run(d, p, 0, 2);
  for (std::size_t t = 0; t < d.mask.size(); ++t) {
    const std::size_t i = t < 20 ? 0 : 1;
    const double expected =
        d.mask[t] == 0 ? 0.0
                       : -d.advantage[t] * p.is_weight[t] / (2.0 * static_cast<double>(p.response_tokens[i]));
    EXPECT_NEAR(r.dlogp[t], expected, 1e-16);
  }
}

}  // namespace
}  // namespace minite::rl::test
