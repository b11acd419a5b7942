#include "cli/recipe_kernels.h"

#include <fmt/format.h>

namespace minite::cli {
namespace {

constexpr int64_t kSize = 4096;  ///< of the layer that kernels are named for: some depend on N and K

/// A recipe's operand of this format would be read as it is.
Support quantization(const OpTable& table, const QuantSpec& spec) {
  return spec.quantized() ? table.supports_quantize(spec) : Support{true, {}, {}, true, {}};
}

std::string operand_text(std::string_view name, const Support& support) {
  return support.kernel.empty() ? fmt::format("{} as it is", name)
                                : fmt::format("{} by {}", name, support.kernel);
}

}  // namespace

std::string ProductKernels::refusal() const {
  for (const Support* each : {&a, &b, &product}) {
    if (!each->ok) return each->reason;
  }
  return {};
}

std::vector<ProductKernels> recipe_kernels(const RecipeSpec& recipe, const Backend& backend, int64_t n,
                                           int64_t k) {
  const OpTable& table = *backend.built;
  struct Pass {
    std::string_view name;
    const MatmulSpec& spec;
    int64_t columns, depth;
    DType y;  ///< a weight's gradient is accumulated in FP32
  };
  const QLinearParams& p = recipe.params;
  std::vector<ProductKernels> all;
  const Pass passes[] = {{"fprop", p.fprop, n, k, DType::bf16},
                         {"dgrad", p.dgrad, k, n, DType::bf16},
                         {"wgrad", p.wgrad, k, n, DType::f32}};
  for (const Pass& pass : passes) {
    all.push_back(
        {pass.name,
         table.supports_gemm({pass.spec.a.format, pass.spec.b.format, pass.y, pass.columns, pass.depth}),
         quantization(table, pass.spec.a), quantization(table, pass.spec.b)});
  }
  return all;
}

std::string kernels_text(const RecipeSpec& recipe, const Backend& backend) {
  std::string text;
  for (const ProductKernels& each : recipe_kernels(recipe, backend, kSize, kSize)) {
    const std::string refusal = each.refusal();
    const std::string what =
        refusal.empty() ? fmt::format("{}: {}; operands: {}, {}", each.product.kernel, each.product.order,
                                      operand_text("a", each.a), operand_text("b", each.b))
                        : "refused: " + refusal;
    text += fmt::format("{:<20}{}: {}\n", fmt::format("{} {}", backend.name, each.pass), "kernel", what);
  }
  return text;
}

nlohmann::ordered_json kernels_json(const RecipeSpec& recipe, const Backend& backend) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ProductKernels& each : recipe_kernels(recipe, backend, kSize, kSize)) {
    rows.push_back({{"pass", each.pass},
                    {"kernel", each.product.kernel},
                    {"order", each.product.order},
                    {"row_invariant", each.product.row_invariant},
                    {"quantize_a", each.a.kernel},
                    {"quantize_b", each.b.kernel},
                    {"refused", each.refusal()}});
  }
  return rows;
}

}  // namespace minite::cli
