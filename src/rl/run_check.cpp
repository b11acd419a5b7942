// Validation of a run's configuration, and its options as the loss takes them.
#include <array>

#include "core/fail.h"
#include "ops/plan.h"
#include "rl/run_config.h"

namespace minite::rl {
namespace {

/// What a number may be; both ends are allowed.
struct Range {
  std::string_view key;
  double value, lowest, highest;
};
constexpr double kMost = 1e12;              // keeps products of sizes far from the end of int64
constexpr double kMostSequences = 1 << 24;  // the sampling noise of a step has 24 bits for the sequence

void check_ranges(std::span<const Range> ranges) {
  for (const Range& r : ranges) {
    require(r.value >= r.lowest && r.value <= r.highest, "{}={}: must be between {} and {}", r.key, r.value,
            r.lowest, r.highest);
  }
}

void check_sizes(const RunConfig& c) {
  const auto n = [](int64_t x) { return static_cast<double>(x); };
  const std::array ranges = {
      Range{"threads", n(c.threads), 0, 4096},
      Range{"max_length", n(c.max_length), 2, kMost},
      Range{"micro_tokens", n(c.micro_tokens), 1, kMost},
      Range{"sampler_sequences", n(c.sampler_sequences), 1, kMost},
      Range{"checkpoint_every", n(c.checkpoint_every), 1, kMost},
      Range{"data.problems", n(c.data.problems), 0, kMost},
      Range{"sft.steps", n(c.sft.steps), 0, kMost},
      Range{"sft.batch_size", n(c.sft.batch_size), 1, kMostSequences},
      Range{"sft.warmup_steps", n(c.sft.warmup_steps), 0, kMost},
      Range{"rl.steps", n(c.rl.steps), 0, kMost},
      Range{"rl.warmup_steps", n(c.rl.warmup_steps), 0, kMost},
      Range{"rl.train_batch_size", n(c.rl.train_batch_size), 1, kMostSequences},
      Range{"rl.top_k", n(c.rl.top_k), 0, kMost},
      Range{"rl.max_num_gen_batches", n(c.rl.max_num_gen_batches), 1, kMostSequences},
      Range{"rl.overlong_buffer_len", n(c.rl.overlong_buffer_len), 0, n(c.max_length)},
      Range{"rl.ppo_epochs", n(c.rl.ppo_epochs), 1, 1000},
      Range{"rl.ppo_mini_batch_size", n(c.rl.ppo_mini_batch_size), 0, kMostSequences},
      Range{"rl.rollout_staleness", n(c.rl.rollout_staleness), 0, 64},  // each keeps a copy of the masters
      Range{"contrast.steps", n(c.contrast.steps), 0, kMost},
  };
  check_ranges(ranges);
  require(c.rl.n >= 2, "rl.n={}: an advantage needs at least 2 responses a prompt", c.rl.n);
  const double rollouts = c.rl.filter_groups ? n(c.rl.max_num_gen_batches) : 1.0;
  require(n(c.rl.n) * n(c.rl.train_batch_size) * rollouts <= kMostSequences,
          "rl.n={}, rl.train_batch_size={} and {} rollouts a step: a step holds at most {} responses", c.rl.n,
          c.rl.train_batch_size, rollouts, kMostSequences);
  require(c.rl.ppo_mini_batch_size == 0 || c.rl.train_batch_size % c.rl.ppo_mini_batch_size == 0,
          "rl.ppo_mini_batch_size={} does not divide rl.train_batch_size={}", c.rl.ppo_mini_batch_size,
          c.rl.train_batch_size);
  require(c.micro_tokens >= c.max_length, "micro_tokens={} is smaller than max_length={}", c.micro_tokens,
          c.max_length);
}

void check_rates(const RunConfig& c) {
  constexpr double kTiny = 1e-6, kBelowOne = 1 - 1e-6, kHuge = 1e6;
  const std::array ranges = {
      Range{"beta1", c.beta1, 0, kBelowOne},
      Range{"beta2", c.beta2, 0, kBelowOne},
      Range{"max_grad_norm", c.max_grad_norm, 1e-30, 1e30},
      Range{"sft.lr", c.sft.lr, 0, kHuge},
      Range{"sft.lr_end", c.sft.lr_end, 0, 1},
      Range{"sft.weight_decay", c.sft.weight_decay, 0, kHuge},
      Range{"sft.router_aux_loss_coef", c.sft.router_aux_loss_coef, 0, kHuge},
      Range{"rl.lr", c.rl.lr, 0, kHuge},
      Range{"rl.lr_end", c.rl.lr_end, 0, 1},
      Range{"rl.weight_decay", c.rl.weight_decay, 0, kHuge},
      Range{"rl.router_aux_loss_coef", c.rl.router_aux_loss_coef, 0, kHuge},
      Range{"rl.temperature", c.rl.temperature, kTiny, kHuge},  // log-probs divide by it
      Range{"rl.top_p", c.rl.top_p, kTiny, 1},
      Range{"rl.overlong_penalty_factor", c.rl.overlong_penalty_factor, 0, kHuge},
  };
  check_ranges(ranges);
}

/// Two settings that cannot both be meant.
struct Pair {
  std::string_view a, b;  ///< keys, as the message names them
  bool (*contradict)(const RunConfig& c);
  std::string_view why;  ///< and what to change
};

constexpr std::array kPairs = {
    Pair{"rl.filter_groups", "rl.max_num_gen_batches",
         [](const RunConfig& c) { return c.rl.filter_groups && c.rl.max_num_gen_batches < 2; },
         "no rollout is left to replace prompts from; allow at least 2"},
    Pair{"rl.overlong_buffer_len", "rl.overlong_penalty_factor",
         [](const RunConfig& c) { return c.rl.overlong_buffer_len > 0 && c.rl.overlong_penalty_factor == 0; },
         "the penalty is 0 everywhere; set a factor, or rl.overlong_buffer_len=0"},
    Pair{"rl.top_k", "rl.n", [](const RunConfig& c) { return c.rl.top_k == 1 && c.rl.steps > 0; },
         "all responses of a prompt are the same and have advantage 0; set rl.top_k to 0, or above 1"},
    Pair{"rl.router_replay", "model.num_experts",
         [](const RunConfig& c) {
           return c.init.empty() && c.model.num_experts == 0 &&
                  parse<RouterReplay>(c.rl.router_replay) != RouterReplay::off;
         },
         "a dense model has no experts to replay; set rl.router_replay=off"},
};

void check_pairs(const RunConfig& c) {
  for (const Pair& pair : kPairs) {
    if (!pair.contradict(c)) continue;
    std::string both;
    for (const ConfigField& field : config_fields(c)) {
      if (field.key == pair.a || field.key == pair.b)
        both += fmt::format("{}{}={}", both.empty() ? "" : " and ", field.key, field.value);
    }
    fail(ErrorCode::invalid_argument, "{} contradict each other: {}", both, pair.why);
  }
}

void on_or_off(std::string_view key, std::string_view value) {
  require(value == "on" || value == "off", "{}={}: expected on or off", key, value);
}

}  // namespace

LossConfig loss_config(const RlConfig& c) {
  LossConfig loss;
  loss.loss_mode = parse<LossMode>(c.loss_mode);
  loss.clip_ratio_low = c.clip_ratio_low;
  loss.clip_ratio_high = c.clip_ratio_high;
  if (c.clip_ratio_c != 0) loss.clip_ratio_c = c.clip_ratio_c;
  loss.tau_pos = c.tau_pos;
  loss.tau_neg = c.tau_neg;
  if (c.opsm_delta != 0) loss.opsm_delta = c.opsm_delta;
  loss.bypass_mode = c.bypass_mode;
  loss.loss_agg_mode = parse<LossAggMode>(c.loss_agg_mode);
  if (c.loss_scale_factor != 0) loss.loss_scale_factor = c.loss_scale_factor;
  loss.rollout_is = parse<RolloutIs>(c.rollout_is);
  loss.rollout_is_threshold = parse_is_threshold(c.rollout_is_threshold);
  loss.rollout_is_batch_normalize = c.rollout_is_batch_normalize;
  loss.rollout_rs = parse_rollout_rs(c.rollout_rs, c.rollout_rs_threshold);
  loss.entropy_coef = c.entropy_coeff;
  loss.kl_loss_coef = c.kl_loss_coef;
  loss.kl_loss_type = parse<KlLossType>(c.kl_loss_type);
  loss.triage.normalization = parse<Normalization>(c.triage_normalization);
  loss.triage.gate.enable = c.triage == "on";
  loss.triage.gate.scope = parse<GateScope>(c.triage_gate_scope);
  loss.triage.repair.enable = c.triage == "on";
  loss.triage.repair.scope = parse<RepairScope>(c.triage_repair_scope);
  loss.triage.repair.coef = c.triage_repair_coef;
  return loss;
}

void validate(const RunConfig& c) {
  check_sizes(c);
  check_rates(c);
  require(c.data.file.empty() != c.data.generator.empty(),
          "data.file='{}' and data.generator='{}': exactly one must be set (--data FILE.jsonl or a preset)",
          c.data.file, c.data.generator);
  on_or_off("rl.triage", c.rl.triage);
  (void)Policy::parse(c.sampler_policy);
  (void)objective_preset(c.rl.objective);
  (void)parse<AdvEstimator>(c.rl.adv_estimator);
  (void)parse<RouterReplay>(c.rl.router_replay);
  (void)get_recipe(c.learner_recipe);
  (void)get_recipe(c.sampler_recipe);
  (void)get_recipe(c.contrast.learner_recipe);
  (void)get_recipe(c.contrast.sampler_recipe);
  validate(loss_config(c.rl));
  check_pairs(c);
}

}  // namespace minite::rl
