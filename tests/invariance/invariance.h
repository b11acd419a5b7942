#pragma once
// Suites that run once for each recipe of the table, and the gap of two lists of log-probs.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "minite/kv_format.h"
#include "minite/recipe.h"
#include "minite/rl.h"

namespace minite::invariance {

/// Recipes of a suite: all, those that promise batch invariance, or those of them whose weight gradients do
/// not depend on where micro-batches begin.
enum class Which { all, row_local, any_micro_batch };

inline std::vector<std::string> recipe_names(Which which) {
  std::vector<std::string> names;
  for (const RecipeSpec& row : recipes()) {
    if (which != Which::all && !row.params.row_local()) continue;
    if (which == Which::any_micro_batch && row.params.wgrad.a.quantized()) continue;
    names.emplace_back(row.name);
  }
  return names;
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
