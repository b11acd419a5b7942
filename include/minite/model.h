#pragma once
// Model configuration shared by every family.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "minite/recipe.h"

namespace minite {

/// Rotary embeddings stretched as Llama 3.1 does ("rope_type": "llama3"): waves longer than original
/// positions / low_freq_factor turn `factor` times slower, waves shorter than original / high_freq_factor as
/// before, and between the two the speed goes over linearly in the number of turns. A factor of 1 changes
/// nothing.
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

/// Shapes and constants of a decoder-only transformer. Names follow Hugging Face's config.json.
struct ModelConfig {
  std::string family = "qwen3";  ///< a row of model_families()
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  int64_t num_experts = 0;            ///< experts of every layer; 0: one gated MLP of intermediate_size
  int64_t num_experts_per_tok = 0;    ///< experts that a token goes to
  int64_t moe_intermediate_size = 0;  ///< F of one expert
  bool norm_topk_prob = false;        ///< weights of a token's experts sum to 1
  double rope_theta = 1e6;
  RopeScaling rope_scaling;
  float rms_norm_eps = 1e-6f;
  bool tie_word_embeddings = false;
  int32_t bos_token_id = -1;
  int32_t eos_token_id = -1;
  int32_t pad_token_id = -1;
  std::vector<int32_t> stop_token_ids;  ///< further tokens that end a sequence, beside eos_token_id

  /// Whether `token` ends a sequence.
  [[nodiscard]] bool ends_sequence(int32_t token) const {
    return token == eos_token_id || std::ranges::find(stop_token_ids, token) != stop_token_ids.end();
  }
  [[nodiscard]] int64_t q_size() const { return num_attention_heads * head_dim; }
  [[nodiscard]] int64_t kv_size() const { return num_key_value_heads * head_dim; }
  [[nodiscard]] int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  /// Throws invalid_argument when a value is missing, negative or does not divide; names the field.
  void validate() const;
};

/// Parses the text of a Hugging Face config.json; `origin` names the file in messages.
[[nodiscard]] ModelConfig parse_model_config(const std::string& json, const std::string& origin);
/// The config.json text that parse_model_config() reads back to the same values.
[[nodiscard]] std::string to_json(const ModelConfig& config);
/// Makes every token of eos_token_id in the text of a generation_config.json end a sequence too; `origin`
/// names the file in messages.
void add_generation_config(const std::string& json, const std::string& origin, ModelConfig& config);

/// Linear layers in execution order, lm_head last: "layers.L.qkv" [q;k;v], "layers.L.o",
/// "layers.L.gate_up" [gate;up], "layers.L.down", "lm_head". A mixture of experts has "layers.L.router",
/// "layers.L.experts.gate_up" and "layers.L.experts.down" instead, with the n and k of one expert; all
/// experts of a layer share one recipe. A fused tensor, and each expert's part, is one quantization unit.
/// Throws what validate() throws.
[[nodiscard]] std::vector<LinearModule> linear_modules(const ModelConfig& config);

}  // namespace minite
