#pragma once
// A linear layer as resolve() would give it, without a model.
#include <string>

#include "minite/recipe.h"

namespace minite::test_support {

/// Layer `name` with w [n, k] under `recipe`.
inline ResolvedLinear resolved_linear(const std::string& name, const std::string& recipe, int64_t n,
                                      int64_t k) {
  ResolvedLinear r;
  r.module.name = name;
  r.module.n = n;
  r.module.k = k;
  r.recipe = recipe;
  r.params = get_recipe(recipe).params;
  return r;
}

}  // namespace minite::test_support
