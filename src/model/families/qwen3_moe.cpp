// Qwen3 mixture of experts: Qwen3 with a router and experts in every layer, no shared expert.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/families/decoder_parts.h"
#include "model/families/table.h"

namespace minite {
namespace {

constexpr std::array<FieldLimit, 2> kExpertLimits = {{
    {"decoder_sparse_step", "1", "every layer is a mixture of experts"},
    {"mlp_only_layers", "[]", "every layer is a mixture of experts"},
}};

constexpr auto make_limits() {
  std::array<FieldLimit, kQwen3Limits.size() + kExpertLimits.size()> all{};
  const auto end = std::copy(kQwen3Limits.begin(), kQwen3Limits.end(), all.begin());
  std::copy(kExpertLimits.begin(), kExpertLimits.end(), end);
  return all;
}
constexpr auto kLimits = make_limits();

}  // namespace

std::span<const FieldLimit> qwen3_moe_limits() { return kLimits; }

std::vector<LinearModule> qwen3_moe_linear_modules(const ModelConfig& c) {
  return decoder_modules(c, [&](const AddModule& add) {
    add("router", c.num_experts, c.hidden_size, false, 1);
    add("experts.gate_up", 2 * c.moe_intermediate_size, c.hidden_size, true, c.num_experts);
    add("experts.down", c.hidden_size, c.moe_intermediate_size, true, c.num_experts);
  });
}

std::vector<ParameterSpec> qwen3_moe_parameters(const ModelConfig& c) {
  const int64_t f = c.moe_intermediate_size;
  std::vector<CheckpointPiece> gate_up, down;
  for (int64_t e = 0; e < c.num_experts; ++e) {
    const std::string expert = fmt::format("mlp.experts.{}.", e);
    gate_up.push_back({expert + "gate_proj", f});
    gate_up.push_back({expert + "up_proj", f});
    down.push_back({expert + "down_proj", c.hidden_size});
  }
  return decoder_weights(c, [&](const AddParameter& add) {
    add("router", c.hidden_size, Init::normal, {{"mlp.gate", c.num_experts}}, 1);
    add("experts.gate_up", c.hidden_size, Init::normal, gate_up, c.num_experts);
    add("experts.down", f, Init::residual, down, c.num_experts);
  });
}

}  // namespace minite
