#pragma once
// The recipe that is meant where none is named.
#include "minite/recipe.h"

namespace minite {

/// get_recipe(name); for an empty name the recipe of MINITE_RECIPE, else bf16. An unknown recipe in the
/// variable is not_found "MINITE_RECIPE=...: ...".
[[nodiscard]] const RecipeSpec& recipe_or_default(std::string_view name);

}  // namespace minite
