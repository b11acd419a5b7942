#include "rl/run_config.h"

#include <yaml-cpp/yaml.h>

#include <array>
#include <charconv>

#include "core/fail.h"
#include "ops/plan.h"

namespace minite::rl {
namespace {

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
  v("rules", c.rules, "text of a rule file, applied on both sides");
  v("init", c.init, "checkpoint folder to start from; empty: train from scratch");
  v("max_length", c.max_length, "most tokens of a prompt and its response");
  v("micro_tokens", c.micro_tokens, "most tokens of one learner forward pass");
  v("sampler_sequences", c.sampler_sequences, "sequences decoded together");
  v("beta1", c.beta1, "AdamW");
  v("beta2", c.beta2, "AdamW");
  v("max_grad_norm", c.max_grad_norm, "gradient clipping, L2 norm over all parameters");
  v("checkpoint_every", c.checkpoint_every, "steps between checkpoints");
  v("model.hidden_size", c.model.hidden_size, "width of the residual stream");
  v("model.intermediate_size", c.model.intermediate_size, "width of the MLP");
  v("model.num_hidden_layers", c.model.num_hidden_layers, "layers");
  v("model.num_attention_heads", c.model.num_attention_heads, "query heads");
  v("model.num_key_value_heads", c.model.num_key_value_heads, "key/value heads");
  v("model.head_dim", c.model.head_dim, "size of a head");
  v("model.tie_word_embeddings", c.model.tie_word_embeddings, "embedding and LM head share their weights");
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
  v("rl.steps", c.rl.steps, "policy updates");
  v("rl.train_batch_size", c.rl.train_batch_size, "prompts an update");
  v("rl.n", c.rl.n, "responses a prompt");
  v("rl.lr", c.rl.lr, "learning rate");
  v("rl.warmup_steps", c.rl.warmup_steps, "linear warm-up");
  v("rl.lr_end", c.rl.lr_end,
    "share of the learning rate at the last step, reached by a cosine; 1: constant");
  v("rl.weight_decay", c.rl.weight_decay, "AdamW, on matrices");
  v("rl.temperature", c.rl.temperature, "of sampling and of log-probs on both sides");
  v("rl.top_k", c.rl.top_k, "0: all tokens");
  v("rl.top_p", c.rl.top_p, "1: all tokens");
  v("rl.adv_estimator", c.rl.adv_estimator, "grpo or dr_grpo");
  v("rl.clip_ratio_low", c.rl.clip_ratio_low, "PPO clip below 1");
  v("rl.clip_ratio_high", c.rl.clip_ratio_high, "PPO clip above 1 (clip-higher)");
  v("rl.clip_ratio_c", c.rl.clip_ratio_c, "dual clip, 0: off");
  v("rl.loss_agg_mode", c.rl.loss_agg_mode, "how token losses become one number");
  v("rl.loss_scale_factor", c.rl.loss_scale_factor, "for seq-mean-token-sum-norm, 0: unset");
  v("rl.entropy_coeff", c.rl.entropy_coeff, "weight of the entropy bonus");
  v("rl.rollout_is", c.rl.rollout_is, "correction of the learner-sampler gap: none, token or sequence");
  v("rl.rollout_is_threshold", c.rl.rollout_is_threshold, "\"2\" truncates at 2, \"0.5_5\" masks outside");
  v("rl.triage", c.rl.triage, "TRIAGE gate and repair: on or off");
  v("rl.triage_normalization", c.rl.triage_normalization, "response or global");
  v("rl.triage_gate_scope", c.rl.triage_gate_scope, "q3 or whole");
  v("rl.triage_repair_scope", c.rl.triage_repair_scope, "adv_positive, whole or q2");
  v("rl.triage_repair_coef", c.rl.triage_repair_coef, "weight of the repair term");
  v("contrast.steps", c.contrast.steps, "steps of a second run from the SFT checkpoint with other recipes");
  v("contrast.learner_recipe", c.contrast.learner_recipe, "its learner");
  v("contrast.sampler_recipe", c.contrast.sampler_recipe, "its sampler");
}

// --- text of values ------------------------------------------------------------------------------------
std::string text(const std::string& x) { return x; }
std::string text(bool x) { return x ? "true" : "false"; }
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
template <class N>
void read(std::string_view key, std::string_view value, N& out) {
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, out);
  if (error != std::errc() || stop != end || value.empty()) {
    refuse(key, value, std::is_floating_point_v<N> ? "a number" : "a whole number");
  }
}

std::vector<std::string_view> split_keys(const std::vector<ConfigField>& fields) {
  std::vector<std::string_view> keys;
  for (const ConfigField& f : fields) keys.push_back(f.key);
  return keys;
}

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
      Range{"contrast.steps", n(c.contrast.steps), 0, kMost},
  };
  check_ranges(ranges);
  require(c.rl.n >= 2, "rl.n={}: an advantage needs at least 2 responses a prompt", c.rl.n);
  require(n(c.rl.n) * n(c.rl.train_batch_size) <= kMostSequences,
          "rl.n={} and rl.train_batch_size={}: an update holds at most {} responses", c.rl.n,
          c.rl.train_batch_size, kMostSequences);
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
      Range{"rl.lr", c.rl.lr, 0, kHuge},
      Range{"rl.lr_end", c.rl.lr_end, 0, 1},
      Range{"rl.weight_decay", c.rl.weight_decay, 0, kHuge},
      Range{"rl.temperature", c.rl.temperature, kTiny, kHuge},  // log-probs divide by it
      Range{"rl.top_p", c.rl.top_p, kTiny, 1},
  };
  check_ranges(ranges);
}

void on_or_off(std::string_view key, std::string_view value) {
  if (value != "on" && value != "off") refuse(key, value, "on or off");
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

constexpr std::array<RunPreset, 1> kPresets = {{
    {"demo", "a 3-layer Qwen3 learns addition: SFT, GRPO with NVFP4 on both sides, a mismatched contrast",
     demo},
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
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>();
      if (!entry.second.IsMap()) {
        apply(key, entry.second);
        continue;
      }
      for (const auto& inner : entry.second) apply(key + "." + inner.first.as<std::string>(), inner.second);
    }
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::corrupt_data, "{}:{}: not valid YAML: {}", origin, error.mark.line + 1, error.msg);
  }
  return base;
}

LossConfig loss_config(const RlConfig& c) {
  LossConfig loss;
  loss.clip_ratio_low = c.clip_ratio_low;
  loss.clip_ratio_high = c.clip_ratio_high;
  if (c.clip_ratio_c != 0) loss.clip_ratio_c = c.clip_ratio_c;
  loss.loss_agg_mode = parse<LossAggMode>(c.loss_agg_mode);
  if (c.loss_scale_factor != 0) loss.loss_scale_factor = c.loss_scale_factor;
  loss.rollout_is = parse<RolloutIs>(c.rollout_is);
  loss.rollout_is_threshold = parse_is_threshold(c.rollout_is_threshold);
  loss.entropy_coef = c.entropy_coeff;
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
  (void)parse<AdvEstimator>(c.rl.adv_estimator);
  (void)get_recipe(c.learner_recipe);
  (void)get_recipe(c.sampler_recipe);
  (void)get_recipe(c.contrast.learner_recipe);
  (void)get_recipe(c.contrast.sampler_recipe);
  validate(loss_config(c.rl));
}

}  // namespace minite::rl
