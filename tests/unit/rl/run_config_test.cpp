// A run's configuration: objective presets, spelling, contradictory pairs.
#include "rl/run_config.h"

#include "rl_support.h"

namespace minite::rl::test {
namespace {

RunConfig valid() {
  RunConfig c;
  c.data.generator = "addition";
  return c;
}

void expect_refused(const std::vector<std::string>& assignments, const std::vector<std::string>& parts) {
  RunConfig c = valid();
  expect_error(ErrorCode::invalid_argument, parts, [&] {
    for (const std::string& a : assignments) set_assignment(c, a);
    validate(c);
  });
}

TEST(RunConfig, DefaultsAreTheGrpoPreset) {
  RunConfig c = valid();
  EXPECT_NO_THROW(validate(c));
  const std::string before = to_yaml(c);
  set_field(c, "rl.objective", "grpo");
  EXPECT_EQ(to_yaml(c), before);
}

TEST(RunConfig, ObjectiveSetsWhatThePresetNames) {
  for (const ObjectivePreset& preset : objective_presets()) {
    RunConfig c = valid();
    set_field(c, "rl.objective", preset.name);
    EXPECT_EQ(c.rl.objective, preset.name);
    const LossConfig loss = [&] {
      c.rl.loss_scale_factor = preset.loss_agg_mode == LossAggMode::seq_mean_token_sum_norm ? 64.0 : 0.0;
      c.rl.triage = "off";
      return loss_config(c.rl);
    }();
    EXPECT_EQ(loss.loss_mode, preset.loss_mode) << preset.name;
    EXPECT_EQ(loss.loss_agg_mode, preset.loss_agg_mode) << preset.name;
    EXPECT_EQ(loss.clip_ratio_low, preset.clip_ratio_low) << preset.name;
    EXPECT_EQ(loss.clip_ratio_high, preset.clip_ratio_high) << preset.name;
    EXPECT_EQ(c.rl.adv_estimator, name_of(preset.adv_estimator)) << preset.name;
    EXPECT_NO_THROW(validate(c)) << preset.name;
    EXPECT_EQ(to_yaml(parse_config(to_yaml(c), "x.yaml")), to_yaml(c)) << preset.name;
  }
}

TEST(RunConfig, TheObjectiveOfAFileIsAppliedFirst) {
  for (const char* text :
       {"rl: {objective: gspo, clip_ratio_low: 0.1}", "rl: {clip_ratio_low: 0.1, objective: gspo}",
        "rl: {clip_ratio_low: 0.1}\nrl.objective: gspo"}) {
    const RunConfig c = parse_config(text, "x.yaml");
    EXPECT_EQ(c.rl.clip_ratio_low, 0.1) << text;
    EXPECT_EQ(c.rl.clip_ratio_high, 4e-4) << text;
    EXPECT_EQ(c.rl.loss_mode, "gspo") << text;
  }
}

/// Two settings that contradict each other, and for each a value that makes peace.
struct Contradiction {
  std::string a, b;
  std::string other_a, other_b;
  std::vector<std::string> base = {};
};

// The message names both settings, and each of the two may stay when the other changes: it is the pair that
// is refused.
TEST(RunConfig, ContradictoryPairsAreNamed) {
  const std::vector<Contradiction> all = {
      {"rl.bypass_mode=true", "rl.rollout_is=token", "rl.bypass_mode=false", "rl.rollout_is=none"},
      {"rl.bypass_mode=true", "rl.rollout_is=sequence", "rl.bypass_mode=false", "rl.rollout_is=none"},
      {"rl.rollout_is_batch_normalize=true", "rl.rollout_is=none", "rl.rollout_is_batch_normalize=false",
       "rl.rollout_is=token"},
      {"rl.filter_groups=true", "rl.max_num_gen_batches=1", "rl.filter_groups=false",
       "rl.max_num_gen_batches=2"},
      {"rl.overlong_buffer_len=4", "rl.overlong_penalty_factor=0", "rl.overlong_buffer_len=0",
       "rl.overlong_penalty_factor=1"},
      {"rl.router_replay=R3", "model.num_experts=0", "rl.router_replay=off", "model.num_experts=4"},
      {"rl.router_replay=R2", "model.num_experts=0", "rl.router_replay=off", "model.num_experts=4"},
      {"rl.top_k=1", "rl.n=8", "rl.top_k=2", "", {"rl.steps=1"}},
      {"rl.clip_ratio_c=3", "rl.loss_mode=gspo", "rl.clip_ratio_c=0", "rl.loss_mode=vanilla"},
      {"rl.clip_ratio_c=3", "rl.loss_mode=sapo", "rl.clip_ratio_c=0", "rl.loss_mode=vanilla"},
      {"rl.triage_normalization=global", "rl.loss_agg_mode=seq-mean-token-mean",
       "rl.triage_normalization=response", "rl.loss_agg_mode=token-mean"},
      {"rl.loss_scale_factor=2",
       "rl.loss_agg_mode=token-mean",
       "rl.loss_scale_factor=0",
       "rl.loss_agg_mode=seq-mean-token-sum-norm",
       {"rl.triage=off"}},
      {"rl.rollout_rs=none", "rl.rollout_rs_threshold=2", "rl.rollout_rs=token_k1",
       "rl.rollout_rs_threshold="},
      {"rl.train_batch_size=16", "rl.ppo_mini_batch_size=5", "rl.train_batch_size=15",
       "rl.ppo_mini_batch_size=4"},
      {"micro_tokens=64", "max_length=96", "micro_tokens=96", "max_length=64"},
      {"data.file=x.jsonl", "data.generator=addition", "data.file=", "data.generator="},
  };
  const auto config = [](const std::vector<std::string>& base, const std::string& a, const std::string& b) {
    RunConfig c = valid();
    for (const std::string& s : base) set_assignment(c, s);
    for (const std::string& s : {a, b}) set_assignment(c, s);
    return c;
  };
  const auto key = [](const std::string& assignment) {
    const std::string name = assignment.substr(0, assignment.find('='));
    return name.substr(name.find("rl.") == 0 ? 3 : 0);
  };
  for (const Contradiction& c : all) {
    SCOPED_TRACE(c.a + " " + c.b);
    // The message says normalization for triage_normalization.
    const auto named = [&](const std::string& a) {
      const std::string k = key(a);
      return k.starts_with("triage_") ? k.substr(7) : k;
    };
    expect_error(ErrorCode::invalid_argument, {named(c.a), named(c.b)},
                 [&] { validate(config(c.base, c.a, c.b)); });
    if (!c.other_a.empty()) {
      EXPECT_NO_THROW(validate(config(c.base, c.other_a, c.b)));
    }
    if (!c.other_b.empty()) {
      EXPECT_NO_THROW(validate(config(c.base, c.a, c.other_b)));
    }
  }
}

TEST(RunConfig, EveryOptionReachesTheLoss) {
  RunConfig c = valid();
  for (const char* a :
       {"rl.loss_mode=cispo", "rl.clip_ratio_low=1", "rl.kl_loss_coef=0.01", "rl.kl_loss_type=k2",
        "rl.rollout_is_batch_normalize=true", "rl.rollout_rs=seq_mean_k1,veto",
        "rl.rollout_rs_threshold=0.99_1.01,1e-4", "rl.opsm_delta=0.25", "rl.tau_pos=2", "rl.tau_neg=3"}) {
    set_assignment(c, a);
  }
  EXPECT_NO_THROW(validate(c));
  const LossConfig loss = loss_config(c.rl);
  EXPECT_EQ(loss.loss_mode, LossMode::cispo);
  EXPECT_EQ(loss.clip_ratio_low, 1.0);
  EXPECT_EQ(loss.kl_loss_coef, 0.01);
  EXPECT_EQ(loss.kl_loss_type, KlLossType::k2);
  EXPECT_EQ(loss.opsm_delta, 0.25);
  EXPECT_EQ(loss.tau_pos, 2.0);
  EXPECT_EQ(loss.tau_neg, 3.0);
  EXPECT_FALSE(loss.bypass_mode);
  EXPECT_FALSE(loss_config(valid().rl).opsm_delta.has_value());
  EXPECT_TRUE(loss.rollout_is_batch_normalize);
  ASSERT_EQ(loss.rollout_rs.size(), 2U);
  EXPECT_EQ(loss.rollout_rs[0].statistic, RolloutRs::seq_mean_k1);
  EXPECT_EQ(loss.rollout_rs[1].statistic, RolloutRs::veto);
}

TEST(RunConfig, ContradictionsNameBothSides) {
  expect_refused({"rl.objective=gspo", "rl.clip_ratio_c=3"}, {"clip_ratio_c = 3", "loss_mode=gspo"});
  expect_refused({"rl.objective=dapo"},
                 {"normalization=response", "loss_agg_mode=token-mean", "turn TRIAGE off"});
  expect_refused({"rl.objective=dr_grpo", "rl.triage=off"}, {"loss_scale_factor", "seq-mean-token-sum-norm"});
  expect_refused({"rl.rollout_is=none", "rl.rollout_is_batch_normalize=true"},
                 {"rollout_is_batch_normalize", "rollout_is=none"});
  expect_refused({"rl.rollout_rs=veto"}, {"rollout_rs=veto", "rollout_rs_threshold"});
  expect_refused({"rl.rollout_rs_threshold=2"}, {"rollout_rs_threshold '2'", "rollout_rs=none"});
  expect_refused({"rl.train_batch_size=16", "rl.ppo_mini_batch_size=5"},
                 {"rl.ppo_mini_batch_size=5", "rl.train_batch_size=16"});
  expect_refused({"rl.ppo_epochs=0"}, {"rl.ppo_epochs=0"});
  expect_refused({"rl.max_num_gen_batches=0"}, {"rl.max_num_gen_batches=0"});
  expect_refused({"rl.overlong_buffer_len=97"}, {"rl.overlong_buffer_len=97", "96"});
  expect_refused({"rl.overlong_penalty_factor=-1"}, {"rl.overlong_penalty_factor=-1"});
  expect_refused({"rl.filter_groups=true", "rl.train_batch_size=1048576", "rl.n=16"}, {"10 rollouts"});
  expect_refused({"rl.objective=ppo"}, {"objective 'ppo'", "dapo"});
  expect_refused({"rl.kl_loss_type=kl"}, {"kl_loss_type 'kl'", "low_var_kl"});
}

}  // namespace
}  // namespace minite::rl::test
