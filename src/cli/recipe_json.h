#pragma once
// Recipes, and what they are made of, as JSON.
#include <nlohmann/json.hpp>
#include <span>

#include "minite/recipe.h"
#include "recipes/describe.h"

namespace minite::cli {

/// {format, outer, convention, text}; outer and convention only where the format is quantized.
[[nodiscard]] nlohmann::ordered_json to_json(const QuantSpec& spec);
/// {fprop, dgrad, wgrad}, each {a, b, source}.
[[nodiscard]] nlohmann::ordered_json to_json(const QLinearParams& params);
/// One row of `minite recipes --json`.
[[nodiscard]] nlohmann::ordered_json to_json(const RecipeSpec& recipe);
/// The row with products, scale domains and Transformer Engine's differences.
[[nodiscard]] nlohmann::ordered_json to_json(const RecipeDescription& description);
/// {layers: [...], parameters, quantized_parameters, coverage_percent}.
[[nodiscard]] nlohmann::ordered_json to_json(std::span<const ResolvedLinear> layers);

}  // namespace minite::cli
