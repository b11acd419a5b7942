// Qwen3 dense: grouped-query attention with a norm on every q and k head, SwiGLU, RMSNorm, no biases.
#include <array>

#include "model/families/qwen3_parts.h"
#include "model/families/table.h"

namespace minite {
namespace {
constexpr std::array kLimits = kQwen3Limits;
}  // namespace

std::span<const FieldLimit> qwen3_limits() { return kLimits; }

std::vector<LinearModule> qwen3_linear_modules(const ModelConfig& c) {
  return qwen3_modules(c, [&](const AddModule& add) {
    add("gate_up", 2 * c.intermediate_size, c.hidden_size, true, 1);
    add("down", c.hidden_size, c.intermediate_size, true, 1);
  });
}

std::vector<ParameterSpec> qwen3_parameters(const ModelConfig& c) {
  return qwen3_weights(c, [&](const AddParameter& add) {
    add("gate_up", c.hidden_size, Init::normal,
        {{"mlp.gate_proj", c.intermediate_size}, {"mlp.up_proj", c.intermediate_size}}, 1);
    add("down", c.intermediate_size, Init::residual, {{"mlp.down_proj", c.hidden_size}}, 1);
  });
}

}  // namespace minite
