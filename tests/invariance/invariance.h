#pragma once
// Suites that run once for each recipe of the table, and the gap of two lists of log-probs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "minite/kv_format.h"
#include "minite/recipe.h"
#include "minite/rl.h"
#include "support/tiny_model.h"

namespace minite::invariance {

/// Recipes of a suite: all; of those that promise batch invariance, one for each forward product; or those of
/// them whose weight gradients do not depend on where micro-batches begin.
enum class Which { all, row_local, any_micro_batch };

inline std::vector<std::string> recipe_names(Which which) {
  std::vector<std::string> names;
  for (const RecipeSpec& row : recipes()) {
    // The simulated formats differ in their codecs only, which the conformance suite covers: two stand for
    // all here, and EveryRecipe runs the others once.
    if (row.name.starts_with("sim_") && row.name != "sim_e2m1" && row.name != "sim_e3m1_e8m0") continue;
    if (which != Which::all && !row.params.row_local()) continue;
    const auto same_forward = [&](const std::string& name) {
      return get_recipe(name).params.fprop == row.params.fprop;
    };
    if (which == Which::row_local && std::any_of(names.begin(), names.end(), same_forward)) continue;
    if (which == Which::any_micro_batch && row.params.wgrad.a.quantized()) continue;
    names.emplace_back(row.name);
  }
  return names;
}

/// A mixture of experts whose sizes fill no vector, panel or power of two, as far as the blocks of the recipe
/// allow.
inline ModelConfig ragged_experts(const std::string& recipe) {
  const QLinearParams& p = get_recipe(recipe).params;
  int64_t block = 0;
  for (const MatmulSpec* product : {&p.fprop, &p.dgrad, &p.wgrad}) {
    for (const QuantSpec* spec : {&product->a, &product->b})
      block = std::max<int64_t>(block, format(spec->format).block);
  }
  if (block == 0) block = 7;
  ModelConfig c = test_support::tiny_experts(24);
  c.hidden_size = 3 * block;
  c.moe_intermediate_size = 3 * block;
  c.num_experts = 5;
  return c;
}
/// The formats of keys and values; suites run with the same on both sides.
inline constexpr std::array<KvFormat, 2> kKvFormats = {KvFormat::bf16, KvFormat::fp8};

class RecipeTest : public testing::TestWithParam<std::string> {};

#define MINITE_RECIPES(Suite, which)                                              \
  INSTANTIATE_TEST_SUITE_P(Recipe, Suite, testing::ValuesIn(recipe_names(which)), \
                           [](const auto& recipe) { return recipe.param; })

/// The gap as a run reports it, every token valid, all in one response.
inline rl::GapStats gap_between(const std::vector<float>& learner, const std::vector<float>& sampler) {
  const std::vector<double> old(learner.begin(), learner.end()), recorded(sampler.begin(), sampler.end());
  const std::vector<int64_t> offsets = {0, static_cast<int64_t>(old.size())};
  const std::vector<uint8_t> mask(old.size(), 1);
  const std::vector<double> advantage(old.size(), 1.0);
  return rl::gap_stats({offsets, recorded, old, mask, advantage});
}

}  // namespace minite::invariance
