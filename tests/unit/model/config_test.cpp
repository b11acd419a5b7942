// Hugging Face configurations of the Qwen3 families.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "minite/model.h"
#include "model/families/table.h"
#include "model/rope.h"
#include "support/expect_error.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::expect_error;

/// A config.json as published with a small Qwen3 model.
json published() {
  return json::parse(R"({
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
    "use_sliding_window": false, "vocab_size": 151936})");
}

/// The same of a mixture of experts.
json published_experts() {
  json document = published();
  document["architectures"] = {"Qwen3MoeForCausalLM"};
  document["model_type"] = "qwen3_moe";
  document["num_experts"] = 128;
  document["num_experts_per_tok"] = 8;
  document["moe_intermediate_size"] = 768;
  document["norm_topk_prob"] = true;
  document["decoder_sparse_step"] = 1;
  document["mlp_only_layers"] = json::array();
  document["output_router_logits"] = false;
  document["router_aux_loss_coef"] = 0.001;
  return document;
}

/// SmolLM2-135M's, which names no head_dim.
json published_llama() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576,
    "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": true,
    "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 9,
    "num_hidden_layers": 30, "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 49152})");
}

struct Change {
  const char* field;
  json value;
  ErrorCode code;
};

ModelConfig parse(const json& document) { return parse_model_config(document.dump(), "c.json"); }

TEST(ModelConfig, PublishedFileIsRead) {
  const ModelConfig config = parse(published());
  EXPECT_EQ(config.family, "qwen3");
  EXPECT_EQ(config.vocab_size, 151936);
  EXPECT_EQ(config.hidden_size, 1024);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.num_hidden_layers, 28);
  EXPECT_EQ(config.num_attention_heads, 16);
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.max_position_embeddings, 40960);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_EQ(config.rms_norm_eps, 1e-6f);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.bos_token_id, 151643);
  EXPECT_EQ(config.eos_token_id, 151645);
  EXPECT_EQ(config.pad_token_id, -1);
  EXPECT_EQ(config.q_size(), 2048);
  EXPECT_EQ(config.kv_size(), 1024);
  EXPECT_EQ(config.qkv_size(), 4096);
}

TEST(ModelConfig, PublishedLlamaIsRead) {
  const ModelConfig config = parse(published_llama());
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.kv_size(), 192);
  EXPECT_EQ(config.rope_theta, 1e5);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(to_json(parse_model_config(to_json(config), "again")), to_json(config));
  json document = published_llama();
  document.erase("rope_theta");
  EXPECT_EQ(parse(document).rope_theta, 1e4) << "what Transformers takes for an old file";
  document["mlp_bias"] = true;
  expect_error(ErrorCode::unsupported, {"mlp_bias=true", "only false"}, [&] { (void)parse(document); });
  document["mlp_bias"] = false;
  document["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0}};
  expect_error(ErrorCode::unsupported, {"rope_scaling", "yarn"}, [&] { (void)parse(document); });
}

/// As published with Llama 3.2 1B, and as newer versions of Transformers write it.
TEST(ModelConfig, Llama3ScalingIsRead) {
  const json scaling = {{"factor", 32.0},
                        {"high_freq_factor", 4.0},
                        {"low_freq_factor", 1.0},
                        {"original_max_position_embeddings", 8192},
                        {"rope_type", "llama3"}};
  json document = published_llama();
  document["max_position_embeddings"] = 131072;
  document["rope_scaling"] = scaling;
  const ModelConfig config = parse(document);
  EXPECT_EQ(config.rope_scaling.factor, 32);
  EXPECT_EQ(config.rope_scaling.original_max_position_embeddings, 8192);
  EXPECT_EQ(to_json(parse_model_config(to_json(config), "again")), to_json(config));
  document["rope_scaling"] = nullptr;
  document["rope_parameters"] = scaling;
  document["rope_parameters"]["rope_theta"] = 100000;
  EXPECT_EQ(to_json(parse(document)), to_json(config));
  const std::vector<Change> changes = {
      {"factor", 0.5, ErrorCode::invalid_argument},
      {"factor", "8", ErrorCode::invalid_argument},
      {"low_freq_factor", 4.0, ErrorCode::invalid_argument},
      {"high_freq_factor", nullptr, ErrorCode::invalid_argument},
      {"original_max_position_embeddings", 1 << 20, ErrorCode::invalid_argument}};
  for (const Change& change : changes) {
    json broken = document;
    broken["rope_parameters"][change.field] = change.value;
    expect_error(change.code, {"c.json", change.field}, [&] { (void)parse(broken); });
  }
}

/// Transformers' formula once more, by wavelengths.
TEST(ModelConfig, Llama3ScalingStretchesLongWaves) {
  const double theta = 5e5, pi = 3.14159265358979323846;
  const int64_t half = 64;
  const std::vector<double> factors = rope_factors(theta, half, {8, 1, 4, 8192});
  int kept = 0, stretched = 0;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(theta, -static_cast<double>(i) / 64), wave = 2 * pi / frequency;
    const double smooth = (8192 / wave - 1) / 3;
    const double wanted = wave < 2048   ? frequency
                          : wave > 8192 ? frequency / 8
                                        : (1 - smooth) * frequency / 8 + smooth * frequency;
    EXPECT_NEAR(frequency / factors[i] / wanted, 1.0, 1e-12) << i;
    kept += factors[i] == 1.0 ? 1 : 0;
    stretched += factors[i] == 8.0 ? 1 : 0;
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(stretched, 29);
  EXPECT_EQ(rope_factors(theta, half, {}), std::vector<double>(64, 1.0));
}

TEST(ModelConfig, EveryTokenOfTheListEndsASequence) {
  json document = published();
  document["eos_token_id"] = {151645, 151643};
  ModelConfig config = parse(document);
  EXPECT_TRUE(config.ends_sequence(151645));
  EXPECT_TRUE(config.ends_sequence(151643));
  EXPECT_FALSE(config.ends_sequence(151644));
  EXPECT_EQ(to_json(parse_model_config(to_json(config), "again")), to_json(config));
  add_generation_config(R"({"eos_token_id": [151643, 7]})", "g.json", config);
  EXPECT_EQ(config.stop_token_ids, (std::vector<int32_t>{151643, 7}));
  add_generation_config(R"({"temperature": 1})", "g.json", config);
  expect_error(ErrorCode::invalid_argument, {"g.json", "eos_token_id=\"x\""},
               [&] { add_generation_config(R"({"eos_token_id": "x"})", "g.json", config); });
}

TEST(ModelConfig, LlamaHasNoNormsOnHeads) {
  ModelConfig config = parse(published_llama());
  config.num_hidden_layers = 1;
  std::vector<std::string> names;
  for (const ParameterSpec& spec : model_family(config.family).parameters(config)) names.push_back(spec.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embed", "layers.0.attn_norm", "layers.0.qkv", "layers.0.o",
                                             "layers.0.mlp_norm", "layers.0.gate_up", "layers.0.down",
                                             "final_norm"}));
}

TEST(ModelConfig, TextIsStableThroughARoundTrip) {
  ModelConfig config = parse(published());
  config.rms_norm_eps = 1e-5f;
  config.rope_theta = 12345.678;
  config.tie_word_embeddings = false;
  config.pad_token_id = 0;
  const std::string text = to_json(config);
  const ModelConfig again = parse_model_config(text, "again");
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.rms_norm_eps, config.rms_norm_eps);
  EXPECT_EQ(again.rope_theta, config.rope_theta);
  EXPECT_EQ(again.pad_token_id, 0);
  EXPECT_EQ(again.bos_token_id, config.bos_token_id);
  EXPECT_NE(text.find("1e-05"), std::string::npos) << text;
}

TEST(ModelConfig, OptionalFields) {
  json document = published();
  document.erase("head_dim");
  document.erase("tie_word_embeddings");
  document.erase("rms_norm_eps");
  document.erase("architectures");
  document["eos_token_id"] = {151645, 151643};
  document["bos_token_id"] = nullptr;
  const ModelConfig config = parse(document);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.rms_norm_eps, 1e-6f);
  EXPECT_EQ(config.eos_token_id, 151645);
  EXPECT_EQ(config.bos_token_id, -1);
}

TEST(ModelConfig, RopeParametersOfNewerFiles) {
  json document = published();
  document.erase("rope_theta");
  expect_error(ErrorCode::invalid_argument, {"c.json", "rope_theta is missing"},
               [&] { (void)parse(document); });
  document["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  EXPECT_EQ(parse(document).rope_theta, 5e5);
  document["rope_parameters"]["rope_type"] = "yarn";
  expect_error(ErrorCode::unsupported, {"rope_type", "yarn"}, [&] { (void)parse(document); });
}

TEST(ModelConfig, UnknownFamiliesAreRefused) {
  json document = published();
  document["model_type"] = "qwen2";
  expect_error(ErrorCode::unsupported, {"c.json", "qwen2", "did you mean 'qwen3'?"},
               [&] { (void)parse(document); });
  document.erase("model_type");
  expect_error(ErrorCode::invalid_argument, {"model_type is missing"}, [&] { (void)parse(document); });
  document = published();
  document["architectures"] = {"Qwen3ForSequenceClassification"};
  expect_error(ErrorCode::unsupported, {"Qwen3ForCausalLM"}, [&] { (void)parse(document); });
  expect_error(ErrorCode::not_found, {"qwen4", "'qwen3'"}, [] { (void)model_family("qwen4"); });
}

TEST(ModelConfig, RefusedValuesAreNamed) {
  const ErrorCode wrong = ErrorCode::invalid_argument;
  const ErrorCode unsupported = ErrorCode::unsupported;
  const std::vector<Change> changes = {
      {"attention_bias", true, unsupported},
      {"use_sliding_window", true, unsupported},
      {"layer_types", {"full_attention", "sliding_attention"}, unsupported},
      {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}, unsupported},
      {"hidden_act", "gelu", unsupported},
      {"attention_dropout", 0.1, unsupported},
      {"head_dim", 127, wrong},
      {"head_dim", 512, wrong},
      {"head_dim", 128.0, wrong},
      {"num_key_value_heads", 3, wrong},
      {"num_key_value_heads", 0, wrong},
      {"num_attention_heads", -16, wrong},
      {"hidden_size", "1024", wrong},
      {"hidden_size", nullptr, wrong},
      {"num_hidden_layers", 1000000000, wrong},
      {"vocab_size", 18446744073709551615u, wrong},
      {"max_position_embeddings", 0, wrong},
      {"rope_theta", -1, wrong},
      {"rope_theta", "1e6", wrong},
      {"rms_norm_eps", 0, wrong},
      {"rms_norm_eps", 1e-60, wrong},
      {"tie_word_embeddings", 1, wrong},
      {"eos_token_id", json::array(), wrong},
      {"eos_token_id", 151936, wrong},
      {"eos_token_id", -2, wrong},
      {"pad_token_id", 3000000000, wrong},
      {"bos_token_id", "a", wrong},
  };
  for (const Change& change : changes) {
    json document = published();
    document[change.field] = change.value;
    SCOPED_TRACE(change.field + (" = " + change.value.dump()));
    expect_error(change.code, {"c.json", change.field}, [&] { (void)parse(document); });
  }
}

TEST(ModelConfig, ExpertsAreRead) {
  const ModelConfig config = parse(published_experts());
  EXPECT_EQ(config.family, "qwen3_moe");
  EXPECT_EQ(config.num_experts, 128);
  EXPECT_EQ(config.num_experts_per_tok, 8);
  EXPECT_EQ(config.moe_intermediate_size, 768);
  EXPECT_TRUE(config.norm_topk_prob);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(to_json(parse_model_config(to_json(config), "again")), to_json(config));
  json document = published_experts();
  document.erase("norm_topk_prob");  // as Transformers: off when it is absent
  EXPECT_FALSE(parse(document).norm_topk_prob);
  for (const char* field : {"mlp_only_layers", "decoder_sparse_step"}) {
    document = published_experts();
    document[field] = nullptr;  // as absent
    EXPECT_EQ(to_json(parse(document)), to_json(config)) << field;
  }
  // A dense configuration does not read the fields of experts.
  document = published();
  document["num_experts"] = 128;
  EXPECT_EQ(parse(document).num_experts, 0);
}

TEST(ModelConfig, RefusedExpertsAreNamed) {
  const std::vector<Change> changes = {
      {"num_experts", 1, ErrorCode::invalid_argument},
      {"num_experts", 0, ErrorCode::invalid_argument},
      {"num_experts", nullptr, ErrorCode::invalid_argument},
      {"num_experts", 7.5, ErrorCode::invalid_argument},
      {"num_experts", 1 << 20, ErrorCode::invalid_argument},
      {"num_experts_per_tok", 129, ErrorCode::invalid_argument},
      {"num_experts_per_tok", 0, ErrorCode::invalid_argument},
      {"moe_intermediate_size", 0, ErrorCode::invalid_argument},
      {"norm_topk_prob", "yes", ErrorCode::invalid_argument},
      {"decoder_sparse_step", 2, ErrorCode::unsupported},
      {"mlp_only_layers", {0}, ErrorCode::unsupported},
      {"mlp_only_layers", "none", ErrorCode::unsupported},
  };
  for (const Change& change : changes) {
    json document = published_experts();
    document[change.field] = change.value;
    SCOPED_TRACE(change.field + (" = " + change.value.dump()));
    expect_error(change.code, {"c.json", change.field}, [&] { (void)parse(document); });
  }
  ModelConfig dense = parse(published());
  dense.num_experts = 4;
  expect_error(ErrorCode::invalid_argument, {"num_experts=4", "qwen3"}, [&] { dense.validate(); });
}

TEST(ModelConfig, FullAttentionLayerTypesAreFine) {
  json document = published();
  document["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_NO_THROW((void)parse(document));
}

TEST(ModelConfig, BrokenTextIsAnError) {
  expect_error(ErrorCode::corrupt_data, {"c.json:2"},
               [] { (void)parse_model_config("{\n\"a\": }", "c.json"); });
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("\xff\xfe"), std::string("nul")}) {
    expect_error(ErrorCode::corrupt_data, {"c.json"}, [&] { (void)parse_model_config(text, "c.json"); });
  }
  expect_error(ErrorCode::invalid_argument, {"object"}, [] { (void)parse_model_config("[]", "c.json"); });
  const std::string deep = "{\"hidden_act\": " + std::string(200000, '[') + std::string(200000, ']') + "}";
  expect_error(ErrorCode::corrupt_data, {"nested"}, [&] { (void)parse_model_config(deep, "c.json"); });
}

TEST(ModelConfig, EveryCutOfAFileIsAnErrorOrReads) {
  const std::string text = published().dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW((void)parse_model_config(text.substr(0, size), "c.json"), Error) << size;
  }
}

TEST(LinearModules, AreInExecutionOrderWithTheHeadLast) {
  const std::vector<LinearModule> modules = linear_modules(parse(published()));
  ASSERT_EQ(modules.size(), 28u * 4 + 1);
  const auto check = [&](size_t index, const char* name, int layer, int64_t n, int64_t k) {
    EXPECT_EQ(modules[index].name, name);
    EXPECT_EQ(modules[index].layer, layer);
    EXPECT_EQ(modules[index].n, n);
    EXPECT_EQ(modules[index].k, k);
  };
  check(0, "layers.0.qkv", 0, 4096, 1024);
  check(1, "layers.0.o", 0, 1024, 2048);
  check(2, "layers.0.gate_up", 0, 6144, 1024);
  check(3, "layers.0.down", 0, 1024, 3072);
  check(111, "layers.27.down", 27, 1024, 3072);
  check(112, "lm_head", -1, 151936, 1024);
  for (const LinearModule& module : modules) EXPECT_EQ(module.covered, module.layer >= 0);
}

TEST(LinearModules, ExpertsFollowTheirRouter) {
  const std::vector<LinearModule> modules = linear_modules(parse(published_experts()));
  ASSERT_EQ(modules.size(), 28u * 5 + 1);
  EXPECT_EQ(modules[2].name, "layers.0.router");
  EXPECT_FALSE(modules[2].covered);
  EXPECT_EQ(modules[2].n, 128);
  EXPECT_EQ(modules[3].name, "layers.0.experts.gate_up");
  EXPECT_EQ(modules[3].n, 2 * 768);
  EXPECT_EQ(modules[3].k, 1024);
  EXPECT_EQ(modules[3].count, 128);
  EXPECT_EQ(modules[4].name, "layers.0.experts.down");
  EXPECT_EQ(modules[4].n, 1024);
  EXPECT_EQ(modules[4].k, 768);
}

TEST(LinearModules, AnInvalidConfigurationIsRefused) {
  expect_error(ErrorCode::invalid_argument, {"vocab_size=0"}, [] { (void)linear_modules(ModelConfig{}); });
}

TEST(ModelFamilies, RowsAreUniqueAndFound) {
  for (const ModelFamily& family : model_families()) EXPECT_EQ(&model_family(family.name), &family);
}

}  // namespace
}  // namespace minite
