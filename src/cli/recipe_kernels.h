#pragma once
// Which kernels a backend would use for a recipe's products.
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "minite/recipe.h"

namespace minite::cli {

/// One product of a linear layer.
struct ProductKernels {
  std::string_view pass;
  Support product;
  Support a, b;  ///< of the operands' quantization; kernel "" where an operand is not quantized
  /// Why the product cannot run, "" when it can.
  [[nodiscard]] std::string refusal() const;
};
/// The three products of a layer of `n` x `k`. `backend.built` must not be null.
[[nodiscard]] std::vector<ProductKernels> recipe_kernels(const RecipeSpec& recipe, const Backend& backend,
                                                         int64_t n, int64_t k);
/// A line a product, for a layer of 4096 x 4096.
[[nodiscard]] std::string kernels_text(const RecipeSpec& recipe, const Backend& backend);
[[nodiscard]] nlohmann::ordered_json kernels_json(const RecipeSpec& recipe, const Backend& backend);

}  // namespace minite::cli
