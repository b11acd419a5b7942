#include "model/families/table.h"

#include <array>

#include "core/fail.h"

namespace minite {
namespace {
constexpr std::array<ModelFamily, 2> kFamilies = {{
    {"qwen3", "Qwen3ForCausalLM", "qwen3", MlpKind::gated, qwen3_limits, qwen3_linear_modules,
     qwen3_parameters},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3_moe", MlpKind::experts, qwen3_moe_limits,
     qwen3_moe_linear_modules, qwen3_moe_parameters},
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
