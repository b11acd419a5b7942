// Hugging Face config.json <-> ModelConfig.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/fail.h"
#include "minite/model.h"
#include "model/families/table.h"

namespace minite {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxDepth = 32;

// Upper bounds far above any real model, low enough that no product of two sizes overflows.
struct SizeField {
  const char* name;
  int64_t ModelConfig::*member;
  int64_t max, min = 1;
};
constexpr std::array<SizeField, 8> kSizes = {{
    {"vocab_size", &ModelConfig::vocab_size, int64_t{1} << 24},
    {"hidden_size", &ModelConfig::hidden_size, int64_t{1} << 20},
    {"intermediate_size", &ModelConfig::intermediate_size, int64_t{1} << 22},
    {"num_hidden_layers", &ModelConfig::num_hidden_layers, 4096},
    {"num_attention_heads", &ModelConfig::num_attention_heads, 4096},
    {"num_key_value_heads", &ModelConfig::num_key_value_heads, 4096},
    {"head_dim", &ModelConfig::head_dim, 256},
    {"max_position_embeddings", &ModelConfig::max_position_embeddings, int64_t{1} << 24},
}};

// Only of families whose MLP is a mixture of experts.
constexpr std::array<SizeField, 3> kExpertSizes = {{
    {"num_experts", &ModelConfig::num_experts, 4096, 2},
    {"num_experts_per_tok", &ModelConfig::num_experts_per_tok, 4096},
    {"moe_intermediate_size", &ModelConfig::moe_intermediate_size, int64_t{1} << 22},
}};

struct TokenField {
  const char* name;
  int32_t ModelConfig::*member;
};
constexpr std::array<TokenField, 3> kTokens = {{
    {"bos_token_id", &ModelConfig::bos_token_id},
    {"eos_token_id", &ModelConfig::eos_token_id},
    {"pad_token_id", &ModelConfig::pad_token_id},
}};

/// A document and the name it has in messages.
struct Document {
  const json& root;
  const std::string& origin;

  /// The field's value, or nullptr when it is absent or null.
  [[nodiscard]] const json* find(std::string_view field) const {
    const auto it = root.find(field);
    return it == root.end() || it->is_null() ? nullptr : &*it;
  }
};

/// JSON text for a message, cut to a readable length; invalid UTF-8 is replaced.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

int64_t integer(const json& value, const char* field, const std::string& origin) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  require(fits, "{}: {}={} must be an integer", origin, field, shown(value));
  return value.get<int64_t>();
}

double number(const json& value, const char* field, const std::string& origin) {
  require(value.is_number(), "{}: {}={} must be a number", origin, field, shown(value));
  return value.get<double>();
}

const ModelFamily& find_family(const Document& doc) {
  const json* type = doc.find("model_type");
  require(type != nullptr && type->is_string(),
          "{}: model_type is missing or no string; is this a config.json?", doc.origin);
  const auto& name = type->get_ref<const std::string&>();
  std::vector<std::string_view> known;
  for (const ModelFamily& row : model_families()) {
    if (row.hf_model_type == name) return row;
    known.push_back(row.hf_model_type);
  }
  fail(ErrorCode::unsupported, "{}: unknown model_type {}; known: {}{}", doc.origin, shown(*type),
       fmt::join(known, ", "), did_you_mean(name, known));
}

void check_architecture(const Document& doc, const ModelFamily& family) {
  const json* list = doc.find("architectures");
  if (list == nullptr) return;
  bool found = false;
  for (const json& entry : *list)
    found |= entry.is_string() && entry.get_ref<const std::string&>() == family.hf_architecture;
  if (!found) {
    fail(ErrorCode::unsupported,
         "{}: architectures={} does not hold {}, the one of model_type {} that is implemented", doc.origin,
         shown(*list), family.hf_architecture, family.hf_model_type);
  }
}

void check_limits(const Document& doc, const ModelFamily& family) {
  for (const FieldLimit& limit : family.limits()) {
    const json* value = doc.find(limit.field);
    if (value == nullptr) continue;
    const json allowed = json::parse(limit.allowed);
    const json list = value->is_array() ? *value : json::array({*value});
    for (const json& entry : list) {
      if (entry == allowed) continue;
      fail(ErrorCode::unsupported, "{}: {}={} is not supported, only {}: {}", doc.origin, limit.field,
           shown(entry), limit.allowed, limit.why);
    }
  }
}

bool boolean(const Document& doc, const char* field, bool absent) {
  const json* value = doc.find(field);
  if (value == nullptr) return absent;
  require(value->is_boolean(), "{}: {}={} must be true or false", doc.origin, field, shown(*value));
  return value->get<bool>();
}

/// Fields of a mixture of experts; a family without experts leaves them at 0.
void read_experts(const Document& doc, const ModelFamily& family, ModelConfig& config) {
  if (family.mlp != MlpKind::experts) return;
  for (const SizeField& field : kExpertSizes) {
    const json* value = doc.find(field.name);
    require(value != nullptr, "{}: {} is missing", doc.origin, field.name);
    config.*field.member = integer(*value, field.name, doc.origin);
  }
  config.norm_topk_prob = boolean(doc, "norm_topk_prob", false);
}

void read_sizes(const Document& doc, ModelConfig& config) {
  for (const SizeField& field : kSizes) {
    if (const json* value = doc.find(field.name)) {
      config.*field.member = integer(*value, field.name, doc.origin);
      continue;
    }
    // Computed below; all other sizes have to be written.
    require(field.member == &ModelConfig::head_dim, "{}: {} is missing", doc.origin, field.name);
  }
  if (doc.find("head_dim") != nullptr) return;
  require(config.num_attention_heads > 0 && config.hidden_size % config.num_attention_heads == 0,
          "{}: head_dim is missing and hidden_size={} does not divide by num_attention_heads={}", doc.origin,
          config.hidden_size, config.num_attention_heads);
  config.head_dim = config.hidden_size / config.num_attention_heads;
}

/// The field of Transformers' rope_scaling, or of rope_parameters, that names the kind of scaling; "type" is
/// its older name.
std::string rope_type(const json& object, const char* field, const std::string& origin) {
  for (const char* key : {"rope_type", "type"}) {
    const auto type = object.find(key);
    if (type == object.end()) continue;
    require(type->is_string(), "{}: {}.{}={} must be a name", origin, field, key, shown(*type));
    return type->get<std::string>();
  }
  return "default";
}

struct ScalingField {
  const char* name;
  double RopeScaling::*member;
};
constexpr std::array<ScalingField, 3> kScaling = {{{"factor", &RopeScaling::factor},
                                                   {"low_freq_factor", &RopeScaling::low_freq_factor},
                                                   {"high_freq_factor", &RopeScaling::high_freq_factor}}};
constexpr const char* kOriginalPositions = "original_max_position_embeddings";

RopeScaling read_llama3_scaling(const json& object, const char* field, const std::string& origin) {
  RopeScaling scaling;
  for (const ScalingField& row : kScaling) {
    const auto value = object.find(row.name);
    require(value != object.end(), "{}: {}.{} is missing", origin, field, row.name);
    scaling.*row.member = number(*value, row.name, origin);
  }
  const auto original = object.find(kOriginalPositions);
  require(original != object.end(), "{}: {}.{} is missing", origin, field, kOriginalPositions);
  scaling.original_max_position_embeddings = integer(*original, kOriginalPositions, origin);
  return scaling;
}

/// rope_theta and rope_scaling stand at the top, or in rope_parameters as newer versions of Transformers
/// write them.
void read_rope(const Document& doc, const ModelFamily& family, ModelConfig& config) {
  const json* theta = doc.find("rope_theta");
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const json* object = doc.find(field);
    if (object == nullptr) continue;
    require(object->is_object(), "{}: {}={} must be an object", doc.origin, field, shown(*object));
    const std::string type = rope_type(*object, field, doc.origin);
    if (type == "llama3") {
      config.rope_scaling = read_llama3_scaling(*object, field, doc.origin);
    } else if (type != "default") {
      fail(ErrorCode::unsupported, "{}: {}.rope_type={} is not supported, only \"default\" and \"llama3\"",
           doc.origin, field, shown(json(type)));
    }
    if (const auto inner = object->find("rope_theta"); inner != object->end()) theta = &*inner;
  }
  if (theta == nullptr && family.rope_theta > 0) {
    config.rope_theta = family.rope_theta;
    return;
  }
  require(theta != nullptr, "{}: rope_theta is missing", doc.origin);
  config.rope_theta = number(*theta, "rope_theta", doc.origin);
}

int32_t token_id(const json& value, const char* field, const std::string& origin) {
  const int64_t id = integer(value, field, origin);
  require(id >= -1 && id <= std::numeric_limits<int32_t>::max(), "{}: {}={} is no token id", origin, field,
          id);
  return static_cast<int32_t>(id);
}

void add_stop(ModelConfig& config, int32_t id) {
  if (id < 0 || config.ends_sequence(id)) return;
  if (config.eos_token_id < 0) {
    config.eos_token_id = id;
  } else {
    config.stop_token_ids.push_back(id);
  }
}

/// One id, or a list: the first counts, and all of eos_token_id end a sequence.
void read_tokens(const Document& doc, ModelConfig& config) {
  for (const TokenField& field : kTokens) {
    const json* value = doc.find(field.name);
    if (value == nullptr) continue;
    require(!value->is_array() || !value->empty(), "{}: {} is an empty list", doc.origin, field.name);
    config.*field.member = token_id(value->is_array() ? value->front() : *value, field.name, doc.origin);
    if (field.member != &ModelConfig::eos_token_id || !value->is_array()) continue;
    for (const json& entry : *value) add_stop(config, token_id(entry, field.name, doc.origin));
  }
}

json parse_document(const std::string& text, const std::string& origin) {
  try {
    // Deep nesting would make copies and messages recurse without limit.
    return json::parse(text, [&](int depth, json::parse_event_t, json&) {
      if (depth > kMaxDepth) fail(ErrorCode::corrupt_data, "{}: nested more than {} deep", origin, kMaxDepth);
      return true;
    });
  } catch (const json::parse_error& error) {
    const auto at = std::min(text.size(), error.byte);
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    fail(ErrorCode::corrupt_data, "{}:{}: not valid JSON (byte {})", origin, line, error.byte);
  } catch (const json::exception& error) {  // a number beyond the range of double
    fail(ErrorCode::corrupt_data, "{}: not valid JSON: {}", origin, error.what());
  }
}

/// The decimal number that reads well and gives `x` again when it is rounded to FP32: 1e-06,
/// not 9.99999997e-07.
double shortest_double(float x) {
  const std::string text = fmt::format("{}", x);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

ordered_json rope_scaling_json(const RopeScaling& scaling) {
  if (scaling.factor == 1) return nullptr;
  ordered_json object = {{"rope_type", "llama3"}};
  for (const ScalingField& row : kScaling) object[row.name] = scaling.*row.member;
  object[kOriginalPositions] = scaling.original_max_position_embeddings;
  return object;
}

void check_experts(const ModelConfig& c, const ModelFamily& family) {
  const bool experts = family.mlp == MlpKind::experts;
  for (const SizeField& field : kExpertSizes) {
    const int64_t value = c.*field.member;
    require(experts || value == 0, "{}={} but family {} has no experts; it must be 0", field.name, value,
            family.name);
    require(!experts || (value >= field.min && value <= field.max), "{}={} must be between {} and {}",
            field.name, value, field.min, field.max);
  }
  require(c.num_experts_per_tok <= c.num_experts, "num_experts_per_tok={} must not exceed num_experts={}",
          c.num_experts_per_tok, c.num_experts);
}

void check_rope_and_norm(const ModelConfig& c) {
  require(std::isfinite(c.rope_theta) && c.rope_theta > 0, "rope_theta={} must be positive and finite",
          c.rope_theta);
  require(std::isfinite(c.rms_norm_eps) && c.rms_norm_eps > 0, "rms_norm_eps={} must be positive and finite",
          c.rms_norm_eps);
  const RopeScaling& s = c.rope_scaling;
  if (s.factor == 1) return;
  require(std::isfinite(s.factor) && s.factor >= 1, "rope_scaling.factor={} must be at least 1", s.factor);
  require(
      s.low_freq_factor > 0 && s.low_freq_factor < s.high_freq_factor && std::isfinite(s.high_freq_factor),
      "rope_scaling.low_freq_factor={} must be positive and below high_freq_factor={}", s.low_freq_factor,
      s.high_freq_factor);
  require(s.original_max_position_embeddings > 0 &&
              s.original_max_position_embeddings <= c.max_position_embeddings,
          "rope_scaling.{}={} must be between 1 and max_position_embeddings={}", kOriginalPositions,
          s.original_max_position_embeddings, c.max_position_embeddings);
}

}  // namespace

void ModelConfig::validate() const {
  const ModelFamily& row = model_family(family);
  for (const SizeField& field : kSizes) {
    const int64_t value = this->*field.member;
    require(value >= field.min && value <= field.max, "{}={} must be between {} and {}", field.name, value,
            field.min, field.max);
  }
  require(num_attention_heads % num_key_value_heads == 0,
          "num_attention_heads={} must be a multiple of num_key_value_heads={}", num_attention_heads,
          num_key_value_heads);
  check_experts(*this, row);
  require(head_dim % 2 == 0, "head_dim={} must be even: rotary embeddings turn pairs", head_dim);
  check_rope_and_norm(*this);
  for (const TokenField& field : kTokens) {
    const int32_t id = this->*field.member;
    require(id >= -1 && id < vocab_size, "{}={} must be -1 (none) or below vocab_size={}", field.name, id,
            vocab_size);
  }
  for (const int32_t id : stop_token_ids) {
    require(id >= 0 && id < vocab_size, "eos_token_id={} must be below vocab_size={}", id, vocab_size);
  }
}

ModelConfig parse_model_config(const std::string& text, const std::string& origin) {
  const json root = parse_document(text, origin);
  require(root.is_object(), "{}: must be a JSON object", origin);
  const Document doc{root, origin};
  const ModelFamily& family = find_family(doc);
  check_architecture(doc, family);
  check_limits(doc, family);

  ModelConfig config;
  config.family = family.name;
  read_sizes(doc, config);
  read_experts(doc, family, config);
  read_tokens(doc, config);
  read_rope(doc, family, config);
  if (const json* eps = doc.find("rms_norm_eps")) {
    config.rms_norm_eps = static_cast<float>(number(*eps, "rms_norm_eps", origin));
  }
  config.tie_word_embeddings = boolean(doc, "tie_word_embeddings", false);
  try {
    config.validate();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", origin, error.what());
  }
  return config;
}

void add_generation_config(const std::string& text, const std::string& origin, ModelConfig& config) {
  const json root = parse_document(text, origin);
  require(root.is_object(), "{}: must be a JSON object", origin);
  const json* eos = Document{root, origin}.find("eos_token_id");
  if (eos == nullptr) return;
  for (const json& entry : eos->is_array() ? *eos : json::array({*eos})) {
    const int32_t id = token_id(entry, "eos_token_id", origin);
    require(id < config.vocab_size, "{}: eos_token_id={} must be below vocab_size={}", origin, id,
            config.vocab_size);
    add_stop(config, id);
  }
}

std::string to_json(const ModelConfig& config) {
  const ModelFamily& family = model_family(config.family);
  ordered_json root;
  root["architectures"] = {family.hf_architecture};
  root["model_type"] = family.hf_model_type;
  for (const SizeField& field : kSizes) root[field.name] = config.*field.member;
  if (family.mlp == MlpKind::experts) {
    for (const SizeField& field : kExpertSizes) root[field.name] = config.*field.member;
    root["norm_topk_prob"] = config.norm_topk_prob;
    root["decoder_sparse_step"] = 1;
    root["mlp_only_layers"] = ordered_json::array();
  }
  root["rope_theta"] = config.rope_theta;
  root["rms_norm_eps"] = shortest_double(config.rms_norm_eps);
  root["tie_word_embeddings"] = config.tie_word_embeddings;
  root["attention_bias"] = false;
  root["attention_dropout"] = 0.0;
  root["hidden_act"] = "silu";
  root["rope_scaling"] = rope_scaling_json(config.rope_scaling);
  root["use_sliding_window"] = false;
  root["torch_dtype"] = "bfloat16";
  for (const TokenField& field : kTokens) {
    const int32_t id = config.*field.member;
    root[field.name] = id < 0 ? ordered_json(nullptr) : ordered_json(id);
  }
  if (!config.stop_token_ids.empty()) {
    root["eos_token_id"] = {config.eos_token_id};
    for (const int32_t id : config.stop_token_ids) root["eos_token_id"].push_back(id);
  }
  return root.dump(2) + "\n";
}

std::vector<LinearModule> linear_modules(const ModelConfig& config) {
  config.validate();
  return model_family(config.family).linear_modules(config);
}

}  // namespace minite
