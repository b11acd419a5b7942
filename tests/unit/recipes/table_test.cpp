// The recipe table and the checks on parameters.
#include <gtest/gtest.h>

#include <set>

#include "minite/recipe.h"
#include "recipes/default.h"
#include "recipes/describe.h"
#include "recipes/glob.h"
#include "support/expect_error.h"

namespace minite {
namespace {

using test_support::expect_error;

TEST(Recipes, RowsAreValidAndUnique) {
  std::set<std::string_view> names;
  for (const RecipeSpec& recipe : recipes()) {
    EXPECT_TRUE(names.insert(recipe.name).second) << recipe.name;
    EXPECT_NO_THROW(recipe.params.validate()) << recipe.name;
    EXPECT_EQ(&get_recipe(recipe.name), &recipe);
    EXPECT_EQ(get_qlinear_params(recipe.name), recipe.params);
    EXPECT_FALSE(recipe.purpose.empty());
    if (recipe.alias.empty()) continue;
    EXPECT_TRUE(names.insert(recipe.alias).second) << recipe.alias;
    EXPECT_EQ(&get_recipe(recipe.alias), &recipe);
  }
  for (const char* name :
       {"fp32", "bf16", "nvfp4_per_token", "nvfp4_per_token_bf16_bwd", "nvfp4_per_token_dequant_bwd",
        "nvfp4_per_tensor", "nvfp4_cursor2_cutlass_v2", "nvfp4_per_expert", "nvfp4_per_expert_bf16_bwd",
        "mxfp8", "nvfp4_w4a16", "nvfp4_w4a8_mxfp8", "nvfp4_2d", "nvfp4_per_token_4over6", "nvfp4_te"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

/// Every simulated format has a recipe of its name that uses it for activations, beside one set of weights.
TEST(Recipes, SimulatedFormatsAreExperimental) {
  int count = 0;
  for (const Format& row : formats()) {
    if (!row.name.starts_with("sim_")) continue;
    const RecipeSpec& recipe = get_recipe(row.name);
    EXPECT_EQ(recipe.group, RecipeGroup::experimental);
    EXPECT_EQ(recipe.params.fprop,
              (MatmulSpec{{.format = row.id}, get_qlinear_params("nvfp4_per_token").fprop.b}));
    EXPECT_EQ(recipe.params.wgrad, (MatmulSpec{}));
    ++count;
  }
  EXPECT_EQ(count, 14);
}

TEST(Recipes, TransformerEnginesDefaultRoles) {
  const QLinearParams p = get_qlinear_params("nvfp4_te");
  EXPECT_EQ(p.fprop.b.blocks, BlockShape::tile);
  EXPECT_EQ(p.dgrad.b, p.fprop.b);
  EXPECT_EQ(p.fprop.a.rounding, Rounding::nearest);
  EXPECT_EQ(p.dgrad.a.rounding, Rounding::stochastic);
  EXPECT_EQ(p.dgrad.a.rotation, Rotation::none);
  EXPECT_EQ(p.wgrad.a.rounding, Rounding::stochastic);
  EXPECT_EQ(p.wgrad.b.rounding, Rounding::nearest);
  for (const QuantSpec& spec : {p.wgrad.a, p.wgrad.b}) EXPECT_EQ(spec.rotation, Rotation::hadamard);
}

/// The weights of the activation-precision ladder are the same codes.
TEST(Recipes, W4RecipesShareTheirWeights) {
  const QuantSpec w = get_qlinear_params("nvfp4_per_token").fprop.b;
  for (const char* name : {"nvfp4_w4a16", "nvfp4_w4a8_mxfp8"})
    EXPECT_EQ(get_qlinear_params(name).fprop.b, w) << name;
}

TEST(Recipes, PerTokenIsNvfp4ForwardAndMxfp8Backward) {
  const QLinearParams params = get_qlinear_params("nvfp4_per_token");
  const QuantSpec nvfp4 = {FormatId::nvfp4, OuterScale::row, Convention::te};
  const QuantSpec mxfp8 = {FormatId::mxfp8, OuterScale::none, Convention::te};
  EXPECT_EQ(params.fprop, (MatmulSpec{nvfp4, nvfp4, OperandSource::saved_original}));
  EXPECT_EQ(params.dgrad, (MatmulSpec{mxfp8, mxfp8, OperandSource::saved_original}));
  EXPECT_EQ(params.wgrad, params.dgrad);
}

TEST(Recipes, BackwardVariantsShareTheForward) {
  const QLinearParams base = get_qlinear_params("nvfp4_per_token");
  const QLinearParams saved = get_qlinear_params("nvfp4_per_token_bf16_bwd");
  const QLinearParams decoded = get_qlinear_params("nvfp4_per_token_dequant_bwd");
  EXPECT_EQ(base.fprop, saved.fprop);
  EXPECT_EQ(base.fprop, decoded.fprop);
  EXPECT_EQ(saved.dgrad, (MatmulSpec{}));
  EXPECT_EQ(decoded.dgrad, (MatmulSpec{{}, {}, OperandSource::dequantized}));
}

TEST(Recipes, OnlyTensorWideActivationScalesBreakRowLocality) {
  for (const RecipeSpec& recipe : recipes())
    EXPECT_EQ(recipe.params.row_local(), recipe.name != "nvfp4_per_tensor" && recipe.name != "nvfp4_te");
  QLinearParams params = get_qlinear_params("nvfp4_per_tensor");
  params.fprop.a.outer = OuterScale::row;
  EXPECT_TRUE(params.row_local()) << "a weight's scale does not depend on the batch";
}

TEST(Recipes, UnknownNameOffersTheNearest) {
  expect_error(ErrorCode::not_found, {"'nvfp4_per_tokn'", "did you mean 'nvfp4_per_token'?"},
               [] { (void)get_qlinear_params("nvfp4_per_tokn"); });
  expect_error(ErrorCode::not_found, {"'x y z w v u t s'", "minite recipes"},
               [] { (void)get_recipe("x y z w v u t s"); });
}

TEST(Recipes, ContradictionsAreRefused) {
  QLinearParams params = get_qlinear_params("bf16");
  params.dgrad.source = OperandSource::dequantized;
  expect_error(ErrorCode::invalid_argument, {"dgrad", "w is bf16 in fprop"}, [&] { params.validate(); });

  params = get_qlinear_params("nvfp4_per_token");
  params.wgrad.source = OperandSource::dequantized;
  expect_error(ErrorCode::invalid_argument, {"wgrad", "not mxfp8"}, [&] { params.validate(); });

  params = get_qlinear_params("nvfp4_per_token");
  params.fprop.source = OperandSource::dequantized;
  expect_error(ErrorCode::invalid_argument, {"fprop"}, [&] { params.validate(); });

  params = get_qlinear_params("bf16");
  params.fprop.a.format = FormatId::fp32;
  expect_error(ErrorCode::invalid_argument, {"fprop", "fp32 with bf16"}, [&] { params.validate(); });

  params = get_qlinear_params("nvfp4_per_token");
  params.dgrad.a.outer = OuterScale::row;
  expect_error(ErrorCode::invalid_argument, {"mxfp8 has no outer scale"}, [&] { params.validate(); });

  params = get_qlinear_params("nvfp4_te");
  params.wgrad.b.rotation = Rotation::none;
  expect_error(ErrorCode::invalid_argument, {"wgrad", "both operands", "nvfp4[te,outer=tensor]"},
               [&] { params.validate(); });

  params = get_qlinear_params("nvfp4_te");
  params.fprop.a.rounding = Rounding::stochastic;
  expect_error(ErrorCode::invalid_argument, {"sr is for gradients"}, [&] { params.validate(); });

  params = get_qlinear_params("nvfp4_te");
  params.dgrad.a.rotation = params.dgrad.b.rotation = Rotation::hadamard;
  params.dgrad.b.blocks = BlockShape::row;
  expect_error(ErrorCode::invalid_argument, {"rht is for wgrad"}, [&] { params.validate(); });
}

TEST(Glob, MatchesTheWholeName) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("*", "layers.0.qkv"));
  EXPECT_TRUE(glob_match("layers.*.o", "layers.12.o"));
  EXPECT_TRUE(glob_match("layers.?.o", "layers.3.o"));
  EXPECT_TRUE(glob_match("**.d*n", "layers.3.down"));
  EXPECT_FALSE(glob_match("layers.?.o", "layers.12.o"));
  EXPECT_FALSE(glob_match("layers.*.o", "layers.12.qkv"));
  EXPECT_FALSE(glob_match("layers", "layers.0.o"));
  EXPECT_FALSE(glob_match("", "x"));
  EXPECT_FALSE(glob_match("?", ""));
  EXPECT_FALSE(glob_match("*o", "layers.0.o "));
}

TEST(Glob, ManyStarsStayFast) {
  const std::string text(5000, 'a');
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(glob_match(pattern + "b", text));
  EXPECT_TRUE(glob_match(pattern, text));
}

TEST(Describe, SaysWhatTheTableHolds) {
  const RecipeDescription d = describe(get_recipe("nvfp4_per_token"));
  EXPECT_TRUE(d.row_local);
  EXPECT_EQ(d.products[0].operands[0].scale_domain,
            "blocks of 16 along K (e4m3), one outer FP32 scale a row");
  EXPECT_EQ(d.products[1].operands[1].scale_domain, "blocks of 32 along N (e8m0)");
  EXPECT_EQ(d.products[2].operands[1].scale_domain, "blocks of 32 along M (e8m0)");
  EXPECT_EQ(d.products[2].operands[1].source, "saved original");
  EXPECT_EQ(d.te_differences.size(), 3u) << "row scales of w, mxfp8 in dgrad and wgrad";
  const std::string text = to_text(d);
  for (const char* part :
       {"nvfp4_per_token (common)", "fprop", "dgrad", "wgrad", "row_scaled_activation=True",
        "even column in the low nibble", "differs: w has one outer scale a row here"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Describe, EveryRecipeHasAText) {
  for (const RecipeSpec& recipe : recipes()) {
    const RecipeDescription d = describe(recipe);
    EXPECT_EQ(d.recipe, &recipe);
    EXPECT_EQ(d.row_local, recipe.params.row_local());
    const std::string text = to_text(d);
    EXPECT_NE(text.find(recipe.te_equivalent), std::string::npos);
    EXPECT_NE(text.find(recipe.alias), std::string::npos);
    if (recipe.te_equivalent.empty()) {
      EXPECT_TRUE(d.te_differences.empty());
      EXPECT_NE(text.find("transformer engine  none"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(describe(get_recipe("nvfp4_per_token_dequant_bwd")).products[1].operands[1].source,
            "decoded forward codes");
  EXPECT_EQ(
      describe(get_recipe("nvfp4_te")).products[2].operands[0].scale_domain,
      "blocks of 16 along M (e4m3), one outer FP32 scale a tensor; rotated by a 16-point Hadamard first; "
      "stochastic rounding");
  EXPECT_EQ(describe(get_recipe("nvfp4_te")).products[0].operands[1].scale_domain,
            "tiles of 16 x 16 (e4m3), one outer FP32 scale a tensor");
}

}  // namespace
}  // namespace minite
