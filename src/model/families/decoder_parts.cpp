#include "model/families/decoder_parts.h"

#include <fmt/format.h>

namespace minite {

std::vector<LinearModule> decoder_modules(const ModelConfig& c,
                                          const std::function<void(const AddModule&)>& add_mlp) {
  std::vector<LinearModule> modules;
  for (int layer = 0; layer < static_cast<int>(c.num_hidden_layers); ++layer) {
    const AddModule add = [&](std::string_view name, int64_t n, int64_t k, bool covered, int64_t count) {
      modules.push_back({fmt::format("layers.{}.{}", layer, name), layer, n, k, covered, count});
    };
    add("qkv", c.qkv_size(), c.hidden_size, true, 1);
    add("o", c.hidden_size, c.q_size(), true, 1);
    add_mlp(add);
  }
  modules.push_back({"lm_head", -1, c.vocab_size, c.hidden_size, false, 1});
  return modules;
}

std::vector<ParameterSpec> decoder_weights(const ModelConfig& c,
                                           const std::function<void(const AddParameter&)>& add_mlp) {
  std::vector<ParameterSpec> specs;
  specs.push_back(
      {"embed", c.vocab_size, c.hidden_size, Init::normal, {{"model.embed_tokens.weight", c.vocab_size}}, 1});
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::string hf = fmt::format("model.layers.{}.", layer);
    const AddParameter add = [&](std::string_view name, int64_t cols, Init init,
                                 std::vector<CheckpointPiece> pieces, int64_t units) {
      int64_t rows = 0;
      for (CheckpointPiece& piece : pieces) {
        piece.name = hf + piece.name + ".weight";
        rows += piece.rows;
      }
      specs.push_back({fmt::format("layers.{}.{}", layer, name), rows, cols, init, std::move(pieces), units});
    };
    add("attn_norm", c.hidden_size, Init::ones, {{"input_layernorm", 1}}, 1);
    add("qkv", c.hidden_size, Init::normal,
        {{"self_attn.q_proj", c.q_size()},
         {"self_attn.k_proj", c.kv_size()},
         {"self_attn.v_proj", c.kv_size()}},
        1);
    if (model_family(c.family).qk_norm) {
      add("q_norm", c.head_dim, Init::ones, {{"self_attn.q_norm", 1}}, 1);
      add("k_norm", c.head_dim, Init::ones, {{"self_attn.k_norm", 1}}, 1);
    }
    add("o", c.q_size(), Init::residual, {{"self_attn.o_proj", c.hidden_size}}, 1);
    add("mlp_norm", c.hidden_size, Init::ones, {{"post_attention_layernorm", 1}}, 1);
    add_mlp(add);
  }
  specs.push_back({"final_norm", 1, c.hidden_size, Init::ones, {{"model.norm.weight", 1}}, 1});
  if (!c.tie_word_embeddings) {
    specs.push_back(
        {"lm_head", c.vocab_size, c.hidden_size, Init::normal, {{"lm_head.weight", c.vocab_size}}, 1});
  }
  return specs;
}

std::vector<LinearModule> gated_modules(const ModelConfig& c) {
  return decoder_modules(c, [&](const AddModule& add) {
    add("gate_up", 2 * c.intermediate_size, c.hidden_size, true, 1);
    add("down", c.hidden_size, c.intermediate_size, true, 1);
  });
}

std::vector<ParameterSpec> gated_weights(const ModelConfig& c) {
  return decoder_weights(c, [&](const AddParameter& add) {
    add("gate_up", c.hidden_size, Init::normal,
        {{"mlp.gate_proj", c.intermediate_size}, {"mlp.up_proj", c.intermediate_size}}, 1);
    add("down", c.intermediate_size, Init::residual, {{"mlp.down_proj", c.hidden_size}}, 1);
  });
}

}  // namespace minite
