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
    EXPECT_FALSE(recipe.te_equivalent.empty());
  }
  for (const char* name : {"fp32", "bf16", "nvfp4_per_token", "nvfp4_per_token_bf16_bwd",
                           "nvfp4_per_token_dequant_bwd", "nvfp4_per_tensor"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
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
    EXPECT_EQ(recipe.params.row_local(), recipe.name != "nvfp4_per_tensor");
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
    EXPECT_NE(to_text(d).find(recipe.te_equivalent), std::string::npos);
    if (!recipe.params.fprop.a.quantized()) {
      EXPECT_TRUE(d.te_differences.empty());
    }
  }
  EXPECT_EQ(describe(get_recipe("nvfp4_per_token_dequant_bwd")).products[1].operands[1].source,
            "decoded forward codes");
}

}  // namespace
}  // namespace minite
