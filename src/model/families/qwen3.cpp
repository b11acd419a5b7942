// Qwen3 dense: grouped-query attention with a norm on every q and k head, SwiGLU, RMSNorm, no biases.
#include <fmt/format.h>

#include <array>

#include "model/families/table.h"

namespace minite {
namespace {
constexpr std::array<FieldLimit, 6> kLimits = {{
    {"attention_bias", "false", "biases in the attention projections are not implemented"},
    {"use_sliding_window", "false", "sliding window attention is not implemented"},
    {"layer_types", "\"full_attention\"", "every layer attends to all earlier tokens"},
    {"rope_scaling", "null", "scaled rotary embeddings are not implemented"},
    {"hidden_act", "\"silu\"", "the gated MLP uses silu"},
    {"attention_dropout", "0.0", "dropout is not implemented"},
}};
}  // namespace

std::span<const FieldLimit> qwen3_limits() { return kLimits; }

std::vector<LinearModule> qwen3_linear_modules(const ModelConfig& config) {
  std::vector<LinearModule> modules;
  for (int layer = 0; layer < static_cast<int>(config.num_hidden_layers); ++layer) {
    const auto add = [&](std::string_view name, int64_t n, int64_t k) {
      modules.push_back({fmt::format("layers.{}.{}", layer, name), layer, n, k, true});
    };
    add("qkv", config.qkv_size(), config.hidden_size);
    add("o", config.hidden_size, config.q_size());
    add("gate_up", 2 * config.intermediate_size, config.hidden_size);
    add("down", config.hidden_size, config.intermediate_size);
  }
  modules.push_back({"lm_head", -1, config.vocab_size, config.hidden_size, false});
  return modules;
}

std::vector<ParameterSpec> qwen3_parameters(const ModelConfig& c) {
  std::vector<ParameterSpec> specs;
  specs.push_back(
      {"embed", c.vocab_size, c.hidden_size, Init::normal, {{"model.embed_tokens.weight", c.vocab_size}}});
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::string hf = fmt::format("model.layers.{}.", layer);
    const auto add = [&](std::string_view name, int64_t cols, Init init,
                         std::vector<CheckpointPiece> pieces) {
      int64_t rows = 0;
      for (CheckpointPiece& piece : pieces) {
        piece.name = hf + piece.name + ".weight";
        rows += piece.rows;
      }
      specs.push_back({fmt::format("layers.{}.{}", layer, name), rows, cols, init, std::move(pieces)});
    };
    add("attn_norm", c.hidden_size, Init::ones, {{"input_layernorm", 1}});
    add("qkv", c.hidden_size, Init::normal,
        {{"self_attn.q_proj", c.q_size()},
         {"self_attn.k_proj", c.kv_size()},
         {"self_attn.v_proj", c.kv_size()}});
    add("q_norm", c.head_dim, Init::ones, {{"self_attn.q_norm", 1}});
    add("k_norm", c.head_dim, Init::ones, {{"self_attn.k_norm", 1}});
    add("o", c.q_size(), Init::residual, {{"self_attn.o_proj", c.hidden_size}});
    add("mlp_norm", c.hidden_size, Init::ones, {{"post_attention_layernorm", 1}});
    add("gate_up", c.hidden_size, Init::normal,
        {{"mlp.gate_proj", c.intermediate_size}, {"mlp.up_proj", c.intermediate_size}});
    add("down", c.intermediate_size, Init::residual, {{"mlp.down_proj", c.hidden_size}});
  }
  specs.push_back({"final_norm", 1, c.hidden_size, Init::ones, {{"model.norm.weight", 1}}});
  if (!c.tie_word_embeddings) {
    specs.push_back(
        {"lm_head", c.vocab_size, c.hidden_size, Init::normal, {{"lm_head.weight", c.vocab_size}}});
  }
  return specs;
}

}  // namespace minite
