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

}  // namespace minite
