#include "rl_support.h"

namespace minite::rl::test {
namespace {

template <class E>
void round_trip(const std::vector<std::string_view>& expected) {
  std::vector<std::string_view> names;
  for (const Option& o : options<E>()) {
    names.push_back(o.name);
    EXPECT_FALSE(o.definition.empty());
    EXPECT_EQ(name_of(parse<E>(o.name)), o.name);
  }
  EXPECT_EQ(names, expected);
}

TEST(Options, NamesAreThoseOfVerlAndTriage) {
  round_trip<AdvEstimator>({"grpo", "dr_grpo"});
  round_trip<LossMode>({"vanilla", "gspo", "cispo", "geo_mean", "sapo"});
  round_trip<KlLossType>({"k1", "k2", "k3", "low_var_kl"});
  round_trip<LossAggMode>(
      {"token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"});
  round_trip<RolloutIs>({"none", "token", "sequence", "geometric"});
  round_trip<RolloutRs>({"token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_sum_k2", "seq_sum_k3",
                         "seq_mean_k1", "seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3", "veto"});
  round_trip<OutOfRange>({"truncate", "mask"});
  round_trip<Normalization>({"response", "global"});
  round_trip<GateScope>({"q3", "whole"});
  round_trip<RepairScope>({"adv_positive", "whole", "q2"});
  round_trip<RouterReplay>({"off", "R2", "R3"});
}

TEST(Options, UnknownNamesListTheTable) {
  expect_error(ErrorCode::invalid_argument,
               {"loss_agg_mode 'token_mean'", "token-sum", "did you mean 'token-mean'"},
               [] { (void)parse<LossAggMode>("token_mean"); });
  expect_error(ErrorCode::invalid_argument, {"rollout_is ''", "none, token, sequence"},
               [] { (void)parse<RolloutIs>(""); });
  expect_error(ErrorCode::invalid_argument, {"objective 'ppo'", "grpo, dr_grpo, dapo, gspo, cispo"},
               [] { (void)objective_preset("ppo"); });
}

TEST(Options, PresetsNameExistingRows) {
  ASSERT_EQ(objective_presets().size(), 7U);
  for (const ObjectivePreset& preset : objective_presets()) {
    LossConfig c;
    c.loss_mode = preset.loss_mode;
    c.loss_agg_mode = preset.loss_agg_mode;
    c.clip_ratio_low = preset.clip_ratio_low;
    c.clip_ratio_high = preset.clip_ratio_high;
    if (c.loss_agg_mode == LossAggMode::seq_mean_token_sum_norm) c.loss_scale_factor = 100.0;
    EXPECT_NO_THROW(validate(c)) << preset.name;
  }
  EXPECT_EQ(objective_preset("gspo").clip_ratio_low, 3e-4);
  EXPECT_EQ(objective_preset("gspo").clip_ratio_high, 4e-4);
  EXPECT_EQ(objective_preset("dapo").clip_ratio_high, 0.28);
  EXPECT_EQ(objective_preset("cispo").clip_ratio_low, 1.0);
  EXPECT_EQ(objective_preset("grpo").loss_agg_mode, LossAggMode::seq_mean_token_mean);
  EXPECT_EQ(objective_preset("dr_grpo").adv_estimator, AdvEstimator::dr_grpo);
}

}  // namespace
}  // namespace minite::rl::test
