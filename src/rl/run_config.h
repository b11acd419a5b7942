#pragma once
// Everything that repeats a run: one struct, one list of its fields, YAML in and out, presets.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minite/kv_format.h"
#include "minite/model.h"
#include "minite/rl.h"

namespace minite::rl {

/// Shape of a model trained from scratch; vocabulary and special tokens come from the tokenizer.
struct ModelShape {
  int64_t hidden_size = 96;
  int64_t intermediate_size = 256;
  int64_t num_hidden_layers = 3;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 2;
  int64_t head_dim = 32;
  bool tie_word_embeddings = false;
  int64_t num_experts = 0;  ///< 0: a dense MLP of intermediate_size
  int64_t num_experts_per_tok = 2;
  int64_t moe_intermediate_size = 64;
  bool norm_topk_prob = true;
};

struct DataConfig {
  std::string file;       ///< JSONL of problems; empty: `generator`
  std::string generator;  ///< a row of `minite tasks list`
  std::string options;    ///< of the generator, "digits=3,steps=1"
  int64_t problems = 0;   ///< how many to train on; 0: all of the file
  uint64_t seed = 1;      ///< order of the generator's problems
  std::string digest;     ///< XXH64 of the problems; written by the run, checked when it is resumed
};

struct SftConfig {
  int64_t steps = 0;
  int64_t batch_size = 128;  ///< sequences an update
  double lr = 3e-3;
  int64_t warmup_steps = 10;  ///< linear
  double lr_end = 0.1;        ///< share of lr at the last step; the way there is a cosine
  double weight_decay = 0.0;
  double router_aux_loss_coef = 0.001;  ///< of the load-balancing loss, with experts
};

struct RlConfig {
  int64_t steps = 0;
  int64_t train_batch_size = 16;  ///< prompts an update
  int64_t n = 8;                  ///< responses a prompt
  double lr = 1e-4;
  int64_t warmup_steps = 10;  ///< linear
  double lr_end = 1.0;        ///< share of lr at the last step; the way there is a cosine, 1: constant
  double weight_decay = 0.0;
  double router_aux_loss_coef = 0.0;  ///< of the load-balancing loss, with experts
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  std::string objective = "grpo";  ///< preset of several fields below, see set_field()
  std::string adv_estimator = "grpo";
  std::string loss_mode = "vanilla";
  double clip_ratio_low = 0.2;
  double clip_ratio_high = 0.28;
  double clip_ratio_c = 0.0;             ///< 0: no dual clip
  double tau_pos = 1.0, tau_neg = 1.05;  ///< of sapo
  double opsm_delta = 0.0;               ///< 0: no off-policy sequence masking
  bool bypass_mode = false;              ///< the ratio is to the sampler's log-probs
  std::string loss_agg_mode = "seq-mean-token-mean";
  double loss_scale_factor = 0.0;  ///< 0: unset
  double entropy_coeff = 0.0;
  double kl_loss_coef = 0.0;  ///< 0: no reference
  std::string kl_loss_type = "low_var_kl";
  std::string rollout_is = "token";
  std::string rollout_is_threshold = "2";
  bool rollout_is_batch_normalize = false;
  std::string rollout_rs = "none";
  std::string rollout_rs_threshold;
  bool filter_groups = false;        ///< DAPO dynamic sampling
  int64_t max_num_gen_batches = 10;  ///< rollouts of one step at most, with filter_groups
  int64_t overlong_buffer_len = 0;   ///< tokens; 0: no penalty
  double overlong_penalty_factor = 1.0;
  int64_t ppo_epochs = 1;           ///< passes over a rollout
  int64_t ppo_mini_batch_size = 0;  ///< prompts an optimizer update; 0: all of the rollout
  int64_t rollout_staleness = 0;    ///< steps that the sampler's weights lag behind
  std::string router_replay = "off";
  std::string triage = "on";
  std::string triage_normalization = "response";
  std::string triage_gate_scope = "q3";
  std::string triage_repair_scope = "adv_positive";
  double triage_repair_coef = 0.015;
};

/// A second, short RL run from the SFT checkpoint with other recipes, drawn beside the first.
struct ContrastConfig {
  int64_t steps = 0;
  std::string learner_recipe = "bf16";
  std::string sampler_recipe = "nvfp4_per_token";
};

struct RunConfig {
  std::string preset;
  uint64_t seed = 0;
  int64_t threads = 0;  ///< 0: all; never changes a bit
  std::string backend = "auto";
  std::string learner_recipe = "nvfp4_per_token";
  std::string sampler_recipe = "nvfp4_per_token";
  std::string sampler_policy = "batch_invariant";
  KvFormat kv_cache = KvFormat::bf16;    ///< keys and values that the sampler reads
  KvFormat learner_kv = KvFormat::bf16;  ///< keys and values that the learner reads
  std::string rules;                     ///< text of a rule file, for both sides
  std::string init;                      ///< checkpoint folder to start from; empty: from scratch
  int64_t max_length = 96;               ///< tokens of prompt and response
  int64_t micro_tokens = 16384;
  int64_t sampler_sequences = 128;
  double beta1 = 0.9, beta2 = 0.95, max_grad_norm = 1.0;
  int64_t checkpoint_every = 50;  ///< steps of any stage
  bool tensorboard = true;        ///< write tensorboard/events.out.tfevents.*
  std::string probe = "none";     ///< none or stats; never changes a bit
  std::string probe_rules;        ///< text of a rule file of the probe; empty: the default rules
  ModelShape model;
  DataConfig data;
  SftConfig sft;
  RlConfig rl;
  ContrastConfig contrast;
};

/// A named configuration.
struct RunPreset {
  std::string_view name;
  std::string_view does;
  RunConfig (*make)();
};
[[nodiscard]] std::span<const RunPreset> run_presets();
/// Throws not_found with the nearest name.
[[nodiscard]] RunConfig run_preset(std::string_view name);

/// One field as help and errors show it.
struct ConfigField {
  std::string key;    ///< "rl.lr"
  std::string value;  ///< as set
  std::string help;
};
[[nodiscard]] std::vector<ConfigField> config_fields(const RunConfig& config);

/// Sets one field from text. Errors: not_found (nearest key offered), invalid_argument (value, key, what is
/// accepted). Setting "rl.objective" also sets the fields that the preset names (adv_estimator, loss_mode,
/// loss_agg_mode, clip_ratio_low, clip_ratio_high); later settings may change them again.
void set_field(RunConfig& config, std::string_view key, std::string_view value);
/// "key=value".
void set_assignment(RunConfig& config, std::string_view assignment);

/// YAML of all fields; parse_config() reads it back to the same values.
[[nodiscard]] std::string to_yaml(const RunConfig& config);
/// Fields that the text names; others keep their value in `base`. rl.objective is applied first, wherever it
/// stands. Errors name `origin` and line.
[[nodiscard]] RunConfig parse_config(const std::string& yaml, const std::string& origin, RunConfig base = {});

/// Checks values and pairs of values; throws invalid_argument naming them.
void validate(const RunConfig& config);

/// The loss options of `config` as the loss takes them.
[[nodiscard]] LossConfig loss_config(const RlConfig& config);

}  // namespace minite::rl
