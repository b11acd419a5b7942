#include "rl/run_config.h"

#include <yaml-cpp/yaml.h>

#include <array>
#include <charconv>

#include "core/fail.h"

namespace minite::rl {
namespace {

template <class Config, class Visit>
void visit_rl_fields(Config& c, const Visit& v) {
  v("rl.steps", c.rl.steps, "policy updates");
  v("rl.train_batch_size", c.rl.train_batch_size, "prompts an update");
  v("rl.n", c.rl.n, "responses a prompt");
  v("rl.lr", c.rl.lr, "learning rate");
  v("rl.warmup_steps", c.rl.warmup_steps, "linear warm-up");
  v("rl.lr_end", c.rl.lr_end,
    "share of the learning rate at the last step, reached by a cosine; 1: constant");
  v("rl.weight_decay", c.rl.weight_decay, "AdamW, on matrices");
  v("rl.router_aux_loss_coef", c.rl.router_aux_loss_coef, "weight of the load-balancing loss of experts");
  v("rl.temperature", c.rl.temperature, "of sampling and of log-probs on both sides");
  v("rl.top_k", c.rl.top_k, "0: all tokens");
  v("rl.top_p", c.rl.top_p, "1: all tokens");
  v("rl.objective", c.rl.objective, "sets adv_estimator, loss_mode, loss_agg_mode and the clip range");
  v("rl.adv_estimator", c.rl.adv_estimator, "grpo or dr_grpo");
  v("rl.loss_mode", c.rl.loss_mode, "vanilla, gspo, cispo, geo_mean or sapo");
  v("rl.clip_ratio_low", c.rl.clip_ratio_low, "clip below 1; 1 or more: no lower bound");
  v("rl.clip_ratio_high", c.rl.clip_ratio_high, "clip above 1 (clip-higher)");
  v("rl.clip_ratio_c", c.rl.clip_ratio_c, "dual clip, 0: off");
  v("rl.tau_pos", c.rl.tau_pos, "sharpness of sapo for positive advantages");
  v("rl.tau_neg", c.rl.tau_neg, "sharpness of sapo for the others");
  v("rl.opsm_delta", c.rl.opsm_delta, "off-policy sequence masking above this mean of l_old - l, 0: off");
  v("rl.bypass_mode", c.rl.bypass_mode, "the ratio is to the sampler's log-probs instead of l_old");
  v("rl.loss_agg_mode", c.rl.loss_agg_mode, "how token losses become one number");
  v("rl.loss_scale_factor", c.rl.loss_scale_factor, "for seq-mean-token-sum-norm, 0: unset");
  v("rl.entropy_coeff", c.rl.entropy_coeff, "weight of the entropy bonus");
  v("rl.kl_loss_coef", c.rl.kl_loss_coef, "weight of the KL penalty against the weights before RL");
  v("rl.kl_loss_type", c.rl.kl_loss_type, "k1, k2, k3 or low_var_kl");
  v("rl.rollout_is", c.rl.rollout_is,
    "correction of the learner-sampler gap: none, token, sequence or geometric");
  v("rl.rollout_is_threshold", c.rl.rollout_is_threshold, "\"2\" truncates at 2, \"0.5_5\" masks outside");
  v("rl.rollout_is_batch_normalize", c.rl.rollout_is_batch_normalize, "divide the weights by their mean");
  v("rl.rollout_rs", c.rl.rollout_rs, "none, or statistics that reject, \"seq_mean_k1,veto\"");
  v("rl.rollout_rs_threshold", c.rl.rollout_rs_threshold, "one each, \"0.99_1.01,1e-4\"");
  v("rl.filter_groups", c.rl.filter_groups, "replace prompts whose responses all have the same reward");
  v("rl.max_num_gen_batches", c.rl.max_num_gen_batches, "most rollouts a step, with filter_groups");
  v("rl.overlong_buffer_len", c.rl.overlong_buffer_len, "last tokens that are penalised, 0: off");
  v("rl.overlong_penalty_factor", c.rl.overlong_penalty_factor, "penalty of the longest response");
  v("rl.ppo_epochs", c.rl.ppo_epochs, "passes over a rollout");
  v("rl.ppo_mini_batch_size", c.rl.ppo_mini_batch_size, "prompts an optimizer update, 0: all");
  v("rl.rollout_staleness", c.rl.rollout_staleness, "steps that the sampler's weights lag behind");
  v("rl.router_replay", c.rl.router_replay, "experts that the learner takes: off, R2 or R3");
  v("rl.triage", c.rl.triage, "TRIAGE gate and repair: on or off");
  v("rl.triage_normalization", c.rl.triage_normalization, "response or global");
  v("rl.triage_gate_scope", c.rl.triage_gate_scope, "q3 or whole");
  v("rl.triage_repair_scope", c.rl.triage_repair_scope, "adv_positive, whole or q2");
  v("rl.triage_repair_coef", c.rl.triage_repair_coef, "weight of the repair term");
}

/// The list of fields: every reader and writer of a configuration walks it.
template <class Config, class Visit>
void visit_fields(Config& c, const Visit& v) {
  v("preset", c.preset, "name of the preset the run started from");
  v("seed", c.seed, "seed of initialisation and sampling");
  v("threads", c.threads, "threads, 0 for all; results do not depend on it");
  v("backend", c.backend, "auto, simd or ref");
  v("learner_recipe", c.learner_recipe, "recipe of the learner's linear layers");
  v("sampler_recipe", c.sampler_recipe, "recipe of the sampler's linear layers");
  v("sampler_policy", c.sampler_policy, "batch_invariant, fastest or exact(KERNEL)");
  v("kv_cache", c.kv_cache, "format of the sampler's keys and values, of `minite formats --kv`");
  v("learner_kv", c.learner_kv, "format of the learner's keys and values, of `minite formats --kv`");
  v("rules", c.rules, "text of a rule file, applied on both sides");
  v("init", c.init, "checkpoint folder to start from; empty: train from scratch");
  v("max_length", c.max_length, "most tokens of a prompt and its response");
  v("micro_tokens", c.micro_tokens, "most tokens of one learner forward pass");
  v("sampler_sequences", c.sampler_sequences, "sequences decoded together");
  v("beta1", c.beta1, "AdamW");
  v("beta2", c.beta2, "AdamW");
  v("max_grad_norm", c.max_grad_norm, "gradient clipping, L2 norm over all parameters");
  v("checkpoint_every", c.checkpoint_every, "steps between checkpoints");
  v("tensorboard", c.tensorboard, "write the metrics as TensorBoard events too");
  v("probe", c.probe, "none, or stats: statistics of tensors in stats.jsonl");
  v("probe_rules", c.probe_rules, "text of rules for the probe; empty: every module, every 10th step");
  v("model.hidden_size", c.model.hidden_size, "width of the residual stream");
  v("model.intermediate_size", c.model.intermediate_size, "width of the MLP");
  v("model.num_hidden_layers", c.model.num_hidden_layers, "layers");
  v("model.num_attention_heads", c.model.num_attention_heads, "query heads");
  v("model.num_key_value_heads", c.model.num_key_value_heads, "key/value heads");
  v("model.head_dim", c.model.head_dim, "size of a head");
  v("model.tie_word_embeddings", c.model.tie_word_embeddings, "embedding and LM head share their weights");
  v("model.num_experts", c.model.num_experts, "experts of every layer, 0 for a dense MLP");
  v("model.num_experts_per_tok", c.model.num_experts_per_tok, "experts that a token goes to");
  v("model.moe_intermediate_size", c.model.moe_intermediate_size, "width of one expert");
  v("model.norm_topk_prob", c.model.norm_topk_prob, "weights of a token's experts sum to 1");
  v("data.file", c.data.file, "JSONL of problems; empty: generator");
  v("data.generator", c.data.generator, "a row of `minite tasks list`");
  v("data.options", c.data.options, "options of the generator");
  v("data.problems", c.data.problems, "problems to train on, 0 for all");
  v("data.seed", c.data.seed, "order of the generator's problems");
  v("data.digest", c.data.digest, "of the problems, written by the run; others are refused");
  v("sft.steps", c.sft.steps, "supervised updates before RL");
  v("sft.batch_size", c.sft.batch_size, "sequences an update");
  v("sft.lr", c.sft.lr, "peak learning rate");
  v("sft.warmup_steps", c.sft.warmup_steps, "linear warm-up");
  v("sft.lr_end", c.sft.lr_end, "share of the learning rate at the last step, reached by a cosine");
  v("sft.weight_decay", c.sft.weight_decay, "AdamW, on matrices");
  v("sft.router_aux_loss_coef", c.sft.router_aux_loss_coef, "weight of the load-balancing loss of experts");
  visit_rl_fields(c, v);
  v("contrast.steps", c.contrast.steps, "steps of a second run from the SFT checkpoint with other recipes");
  v("contrast.learner_recipe", c.contrast.learner_recipe, "its learner");
  v("contrast.sampler_recipe", c.contrast.sampler_recipe, "its sampler");
}

// --- text of values ------------------------------------------------------------------------------------
std::string text(const std::string& x) { return x; }
std::string text(bool x) { return x ? "true" : "false"; }
std::string text(KvFormat x) { return std::string(kv_format(x).name); }
template <class N>
std::string text(const N& x) {
  return fmt::format("{}", x);
}

[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view accepted) {
  fail(ErrorCode::invalid_argument, "{}={}: expected {}", key, value, accepted);
}

void read(std::string_view, std::string_view value, std::string& out) { out = std::string(value); }
void read(std::string_view key, std::string_view value, bool& out) {
  if (value != "true" && value != "false") refuse(key, value, "true or false");
  out = value == "true";
}
void read(std::string_view key, std::string_view value, KvFormat& out) { out = parse_kv_format(key, value); }
template <class N>
void read(std::string_view key, std::string_view value, N& out) {
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, out);
  if (error != std::errc() || stop != end || value.empty()) {
    refuse(key, value, std::is_floating_point_v<N> ? "a number" : "a whole number");
  }
}

constexpr std::string_view kObjectiveKey = "rl.objective";

void apply_objective(RlConfig& c) {
  const ObjectivePreset& preset = objective_preset(c.objective);
  c.adv_estimator = name_of(preset.adv_estimator);
  c.loss_mode = name_of(preset.loss_mode);
  c.loss_agg_mode = name_of(preset.loss_agg_mode);
  c.clip_ratio_low = preset.clip_ratio_low;
  c.clip_ratio_high = preset.clip_ratio_high;
}

std::vector<std::string_view> split_keys(const std::vector<ConfigField>& fields) {
  std::vector<std::string_view> keys;
  for (const ConfigField& f : fields) keys.push_back(f.key);
  return keys;
}

/// About 8 TFLOP in all. The teacher of the SFT stage forgets seven carries in ten; imitation learns that
/// too, and the verifier's reward takes it out again.
RunConfig demo() {
  RunConfig c;
  c.preset = "demo";
  c.data.generator = "addition";
  c.data.options = "digits=3,steps=1,slips=70";
  c.data.problems = 20000;
  c.max_length = 64;
  c.beta2 = 0.98;
  c.sft.steps = 280;
  c.rl.steps = 280;
  c.rl.lr = 1e-4;
  c.rl.warmup_steps = 40;
  c.rl.lr_end = 0.1;
  c.contrast.steps = 20;
  return c;
}

/// The same lesson for a mixture of experts: as many parameters are active for a token as in a dense MLP of
/// 192, out of four times as many.
RunConfig demo_moe() {
  RunConfig c = demo();
  c.preset = "demo-moe";
  c.model.num_experts = 8;
  c.model.num_experts_per_tok = 2;
  c.model.moe_intermediate_size = 96;
  c.learner_recipe = c.sampler_recipe = c.contrast.sampler_recipe = "nvfp4_per_expert_bf16_bwd";
  c.rl.steps = 200;
  return c;
}

constexpr std::array<RunPreset, 2> kPresets = {{
    {"demo", "a 3-layer Qwen3 learns addition: SFT, GRPO with NVFP4 on both sides, a mismatched contrast",
     demo},
    {"demo-moe", "the same with 8 experts in every layer, 2 a token", demo_moe},
}};

}  // namespace

std::span<const RunPreset> run_presets() { return kPresets; }

RunConfig run_preset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const RunPreset& preset : kPresets) {
    if (preset.name == name) return preset.make();
    names.push_back(preset.name);
  }
  fail(ErrorCode::not_found, "unknown preset '{}'; known: {}", name, fmt::join(names, ", "));
}

std::vector<ConfigField> config_fields(const RunConfig& config) {
  std::vector<ConfigField> fields;
  visit_fields(config, [&](const char* key, const auto& value, const char* help) {
    fields.push_back({key, text(value), help});
  });
  return fields;
}

void set_field(RunConfig& config, std::string_view key, std::string_view value) {
  bool found = false;
  visit_fields(config, [&](const char* name, auto& field, const char*) {
    if (key != name) return;
    read(key, value, field);
    found = true;
  });
  if (key == kObjectiveKey) apply_objective(config.rl);
  if (found) return;
  const std::vector<ConfigField> fields = config_fields(config);
  fail(ErrorCode::not_found, "unknown setting '{}'; did you mean '{}'?", key,
       nearest_name(key, split_keys(fields)));
}

void set_assignment(RunConfig& config, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  require(equals != std::string_view::npos && equals > 0, "--set {}: expected key=value", assignment);
  set_field(config, assignment.substr(0, equals), assignment.substr(equals + 1));
}

std::string to_yaml(const RunConfig& config) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  std::string section;
  visit_fields(config, [&](const std::string& key, const auto& value, const char*) {
    const size_t dot = key.find('.');
    const std::string group = dot == std::string::npos ? "" : key.substr(0, dot);
    if (group != section) {
      if (!section.empty()) out << YAML::EndMap;
      if (!group.empty()) out << YAML::Key << group << YAML::Value << YAML::BeginMap;
      section = group;
    }
    out << YAML::Key << (group.empty() ? key : key.substr(dot + 1)) << YAML::Value;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      out << YAML::DoubleQuoted << value;
    } else {
      out << text(value);
    }
  });
  if (!section.empty()) out << YAML::EndMap;
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

RunConfig parse_config(const std::string& yaml, const std::string& origin, RunConfig base) {
  const auto apply = [&](const std::string& key, const YAML::Node& value) {
    const int line = value.Mark().line + 1;
    if (!value.IsScalar())
      fail(ErrorCode::invalid_argument, "{}:{}: {} must be a single value", origin, line, key);
    try {
      set_field(base, key, value.Scalar());
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}:{}: {}", origin, line, error.what()));
    }
  };
  try {
    const YAML::Node root = YAML::Load(yaml);
    if (root.IsNull()) return base;
    if (!root.IsMap()) fail(ErrorCode::invalid_argument, "{}: expected a map of settings", origin);
    std::vector<std::pair<std::string, YAML::Node>> settings;
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>();
      if (!entry.second.IsMap()) {
        settings.emplace_back(key, entry.second);
        continue;
      }
      for (const auto& inner : entry.second)
        settings.emplace_back(key + "." + inner.first.as<std::string>(), inner.second);
    }
    // Assigning a YAML::Node writes through it, so the list is not sorted but walked twice.
    for (const bool first : {true, false}) {
      for (const auto& [key, value] : settings) {
        if ((key == kObjectiveKey) == first) apply(key, value);
      }
    }
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::corrupt_data, "{}:{}: not valid YAML: {}", origin, error.mark.line + 1, error.msg);
  }
  return base;
}

}  // namespace minite::rl
