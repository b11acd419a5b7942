#include "model/families/table.h"

#include <array>

#include "core/fail.h"

namespace minite {
namespace {
constexpr std::array<ModelFamily, 3> kFamilies = {{
    {"qwen3", "Qwen3ForCausalLM", "qwen3", MlpKind::gated, true, 0, qwen3_limits, gated_modules,
     gated_weights},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3_moe", MlpKind::experts, true, 0, qwen3_moe_limits,
     qwen3_moe_linear_modules, qwen3_moe_parameters},
    {"llama", "LlamaForCausalLM", "llama", MlpKind::gated, false, 1e4, llama_limits, gated_modules,
     gated_weights},
}};
}  // namespace

std::span<const ModelFamily> model_families() { return kFamilies; }

const ModelFamily& model_family(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ModelFamily& row : model_families()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  fail(ErrorCode::not_found, "unknown model family '{}'; known: {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

}  // namespace minite
