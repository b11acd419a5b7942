#include <cmath>
#include <limits>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

void expect_refused(const std::vector<std::string>& parts, const std::function<void(LossConfig&)>& spoil) {
  LossConfig c;
  spoil(c);
  expect_error(ErrorCode::invalid_argument, parts, [&] { validate(c); });
}

TEST(Config, DefaultsAreTheReportedSetting) {
  const LossConfig c;
  EXPECT_NO_THROW(validate(c));
  EXPECT_EQ(c.clip_ratio_low, 0.2);
  EXPECT_EQ(c.clip_ratio_high, 0.28);
  EXPECT_FALSE(c.clip_ratio_c);
  EXPECT_EQ(c.entropy_coef, 0.0);
  EXPECT_FALSE(c.triage.enabled());
  EXPECT_EQ(c.triage.repair.huber_beta, std::sqrt(0.0005));
}

TEST(Config, ClipAndThresholdRanges) {
  expect_refused({"clip_ratio_low = -0.1"}, [](auto& c) { c.clip_ratio_low = -0.1; });
  expect_refused({"clip_ratio_high = nan"}, [](auto& c) { c.clip_ratio_high = std::nan(""); });
  expect_refused({"clip_ratio_c = 1", "> 1"}, [](auto& c) { c.clip_ratio_c = 1.0; });
  expect_refused({"tau_pos = 0"}, [](auto& c) { c.tau_pos = 0.0; });
  expect_refused({"tau_neg = nan"}, [](auto& c) { c.tau_neg = std::nan(""); });
  expect_refused({"opsm_delta = -0.1"}, [](auto& c) { c.opsm_delta = -0.1; });
  for (LossMode mode : {LossMode::gspo, LossMode::cispo, LossMode::geo_mean, LossMode::sapo}) {
    expect_refused({"clip_ratio_c = 3", "loss_mode=" + std::string(name_of(mode))}, [&](auto& c) {
      c.loss_mode = mode;
      c.clip_ratio_c = 3.0;
    });
  }
  expect_refused({"kl_loss_coef = -1"}, [](auto& c) { c.kl_loss_coef = -1; });
  expect_refused({"threshold low = -1"}, [](auto& c) { c.rollout_is_threshold.low = -1; });
  expect_refused({"threshold high = 0.5", ">= low (1)"}, [](auto& c) {
    c.rollout_is_threshold = {1.0, 0.5};
  });
  expect_refused({"entropy_coef = -1"}, [](auto& c) { c.entropy_coef = -1; });
}

TEST(Config, ScaleFactorGoesWithItsMode) {
  expect_refused({"seq-mean-token-sum-norm", "loss_scale_factor"},
                 [](auto& c) { c.loss_agg_mode = LossAggMode::seq_mean_token_sum_norm; });
  expect_refused({"loss_scale_factor = 0"}, [](auto& c) {
    c.loss_agg_mode = LossAggMode::seq_mean_token_sum_norm;
    c.loss_scale_factor = 0.0;
  });
  expect_refused({"no meaning", "seq-mean-token-mean"}, [](auto& c) { c.loss_scale_factor = 10.0; });
}

TEST(Config, RejectionAndNormalization) {
  expect_refused({"rollout_is_batch_normalize", "rollout_is=none"},
                 [](auto& c) { c.rollout_is_batch_normalize = true; });
  expect_refused({"rollout_rs token_k2", "[1, 0]"}, [](auto& c) {
    c.rollout_rs.push_back({RolloutRs::token_k2, 1.0, 0.0});
  });
  expect_refused({"rollout_rs veto", "nan"}, [](auto& c) {
    c.rollout_rs.push_back({RolloutRs::veto, 0.0, std::nan("")});
  });
}

TEST(Config, GateRanges) {
  expect_refused({"gate size = 0"}, [](auto& c) { c.triage.gate.size = 0; });
  expect_refused({"bad_count_full = 0"}, [](auto& c) { c.triage.gate.bad_count_full = 0; });
  expect_refused({"neg_delta = 0.1"}, [](auto& c) { c.triage.gate.neg_delta = 0.1; });
  expect_refused({"severe_delta = -0.4", "neg_delta (-0.5)"},
                 [](auto& c) { c.triage.gate.severe_delta = -0.4; });
  expect_refused({"bad_delta = -inf"},
                 [](auto& c) { c.triage.gate.bad_delta = -std::numeric_limits<double>::infinity(); });
  expect_refused({"neg_adv_max = 0.5"}, [](auto& c) { c.triage.gate.neg_adv_max = 0.5; });
  expect_refused({"severe_weight = 0", "(0, 1]"}, [](auto& c) { c.triage.gate.severe_weight = 0.0; });
  expect_refused({"neg_weight = 1.01"}, [](auto& c) { c.triage.gate.neg_weight = 1.01; });
  expect_refused({"neg_weight = 0.305", "multiple of 0.01"},
                 [](auto& c) { c.triage.gate.neg_weight = 0.305; });
  expect_refused({"severe_weight = 0.4", "neg_weight = 0.3"},
                 [](auto& c) { c.triage.gate.severe_weight = 0.4; });
}

TEST(Config, EveryHundredthIsAValidWeight) {
  for (int h = 1; h <= 100; ++h) {
    LossConfig c;
    c.triage.gate.severe_weight = c.triage.gate.neg_weight = h / 100.0;
    EXPECT_NO_THROW(validate(c)) << h;
  }
}

TEST(Config, RepairRanges) {
  expect_refused({"repair size = -1"}, [](auto& c) { c.triage.repair.size = -1; });
  expect_refused({"repair coef = -1"}, [](auto& c) { c.triage.repair.coef = -1; });
  expect_refused({"huber_beta = 0"}, [](auto& c) { c.triage.repair.huber_beta = 0; });
  expect_refused({"target = 0.1"}, [](auto& c) { c.triage.repair.target = 0.1; });
  expect_refused({"start_step = -1"}, [](auto& c) { c.triage.repair.start_step = -1; });
}

TEST(Config, NormalizationAndAggregationArePaired) {
  for (const Option& n : options<Normalization>()) {
    for (const Option& a : options<LossAggMode>()) {
      LossConfig c;
      c.triage.gate.enable = true;
      c.triage.normalization = parse<Normalization>(n.name);
      c.loss_agg_mode = parse<LossAggMode>(a.name);
      if (c.loss_agg_mode == LossAggMode::seq_mean_token_sum_norm) c.loss_scale_factor = 8.0;
      const bool pair = (n.name == "response" && a.name == "seq-mean-token-mean") ||
                        (n.name == "global" && a.name == "token-mean");
      if (pair) {
        EXPECT_NO_THROW(validate(c));
      } else {
        expect_error(ErrorCode::invalid_argument,
                     {"normalization=" + std::string(n.name), "not loss_agg_mode=" + std::string(a.name)},
                     [&] { validate(c); });
      }
      c.triage.gate.enable = false;  // without TRIAGE every aggregation is allowed
      EXPECT_NO_THROW(validate(c));
    }
  }
}

}  // namespace
}  // namespace minite::rl::test
