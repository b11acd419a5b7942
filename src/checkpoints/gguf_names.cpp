// Names of tensors and values in GGUF files; checkpoints/gguf_export.h.
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "checkpoints/gguf_export.h"
#include "core/fail.h"

namespace minite::checkpoints {
namespace {

struct NamePair {
  std::string_view hf, gguf;
};
constexpr std::array<NamePair, 3> kOutside = {
    {{"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}}};
constexpr std::array<NamePair, 12> kInLayers = {{{"input_layernorm", "attn_norm"},
                                                 {"self_attn.q_proj", "attn_q"},
                                                 {"self_attn.k_proj", "attn_k"},
                                                 {"self_attn.v_proj", "attn_v"},
                                                 {"self_attn.o_proj", "attn_output"},
                                                 {"self_attn.q_norm", "attn_q_norm"},
                                                 {"self_attn.k_norm", "attn_k_norm"},
                                                 {"post_attention_layernorm", "ffn_norm"},
                                                 {"mlp.gate_proj", "ffn_gate"},
                                                 {"mlp.up_proj", "ffn_up"},
                                                 {"mlp.down_proj", "ffn_down"},
                                                 {"mlp.gate", "ffn_gate_inp"}}};
constexpr std::array<NamePair, 3> kInExperts = {
    {{"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"}}};

template <class Pairs>
std::string_view lookup(const Pairs& pairs, std::string_view hf) {
  for (const NamePair& pair : pairs) {
    if (pair.hf == hf) return pair.gguf;
  }
  return {};
}

/// "12.rest" -> 12, "rest"; -1 when there is no number.
int64_t take_index(std::string_view& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.' || number < 0) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  return number;
}

}  // namespace

GgufName gguf_name(const std::string& module) {
  if (const std::string_view name = lookup(kOutside, module); !name.empty()) return {std::string(name), -1};
  constexpr std::string_view kLayers = "model.layers.", kExperts = "mlp.experts.";
  std::string_view rest = module;
  if (!rest.starts_with(kLayers)) return {};
  rest.remove_prefix(kLayers.size());
  const int64_t layer = take_index(rest);
  if (layer < 0) return {};
  std::string_view name = lookup(kInLayers, rest);
  int64_t expert = -1;
  if (rest.starts_with(kExperts)) {
    rest.remove_prefix(kExperts.size());
    expert = take_index(rest);
    name = expert < 0 ? std::string_view() : lookup(kInExperts, rest);
  }
  if (name.empty()) return {};
  return {fmt::format("blk.{}.{}", layer, name), expert};
}

int64_t llama_row(int64_t row, int64_t rows, int64_t heads) {
  const int64_t size = rows / heads, head = row / size, place = row % size;
  return head * size + place % 2 * (size / 2) + place / 2;
}

}  // namespace minite::checkpoints
