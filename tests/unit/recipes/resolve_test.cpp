// Base recipe and rules on a small model.
#include <gtest/gtest.h>

#include "core/env.h"
#include "minite/recipe.h"
#include "recipes/describe.h"
#include "support/expect_error.h"

namespace minite {
namespace {

using test_support::expect_error;

constexpr int kLayers = 4;

std::vector<LinearModule> small_model() {
  std::vector<LinearModule> modules;
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    modules.push_back({prefix + ".qkv", layer, 96, 64, true});
    modules.push_back({prefix + ".o", layer, 64, 32, true});
  }
  modules.push_back({"lm_head", -1, 128, 64, false});
  return modules;
}

std::vector<ResolvedLinear> resolved(std::string_view base, const std::string& yaml) {
  return resolve(base, parse_rules(yaml, "r.yaml"), small_model(), kLayers);
}

std::string recipe_of(const std::vector<ResolvedLinear>& layers, std::string_view name) {
  for (const ResolvedLinear& linear : layers) {
    if (linear.module.name == name) return linear.recipe + ": " + linear.reason;
  }
  return "no such module";
}

TEST(Resolve, BaseCoversAllButTheHead) {
  const auto layers = resolve("nvfp4_per_token", {}, small_model(), kLayers);
  ASSERT_EQ(layers.size(), 9u);
  EXPECT_EQ(recipe_of(layers, "layers.0.qkv"), "nvfp4_per_token: base recipe");
  EXPECT_EQ(layers[0].params, get_qlinear_params("nvfp4_per_token"));
  EXPECT_EQ(recipe_of(layers, "lm_head"), "bf16: stays high precision");
  EXPECT_EQ(layers.back().params, get_qlinear_params("bf16"));
}

TEST(Resolve, AnFp32BaseKeepsTheHeadInFp32) {
  EXPECT_EQ(recipe_of(resolve("fp32", {}, small_model(), kLayers), "lm_head"), "fp32: stays high precision");
}

TEST(Resolve, NoNameMeansTheDefault) {
  const std::string expected(env_recipe());
  EXPECT_EQ(recipe_of(resolve("", {}, small_model(), kLayers), "layers.1.o"), expected + ": base recipe");
}

TEST(Resolve, TheLastMatchWins) {
  const auto layers = resolved("nvfp4_per_token",
                               "rules:\n"
                               "  - {match: layers.*.o, recipe: bf16}\n"
                               "  - {layers: 2..-1, recipe: nvfp4_per_token_bf16_bwd}\n");
  EXPECT_EQ(recipe_of(layers, "layers.1.o"), "bf16: rule 1 (layers.*.o)");
  EXPECT_EQ(recipe_of(layers, "layers.2.o"), "nvfp4_per_token_bf16_bwd: rule 2 (*, layers 2..-1)");
  EXPECT_EQ(recipe_of(layers, "layers.3.qkv"), "nvfp4_per_token_bf16_bwd: rule 2 (*, layers 2..-1)");
  EXPECT_EQ(recipe_of(layers, "layers.1.qkv"), "nvfp4_per_token: base recipe");
  EXPECT_EQ(recipe_of(layers, "lm_head"), "bf16: stays high precision");
}

TEST(Resolve, NegativeLayersCountFromTheEnd) {
  const auto layers = resolved("bf16", "rules:\n  - {layers: [0, \"-2..-1\"], recipe: nvfp4_per_token}\n");
  EXPECT_EQ(recipe_of(layers, "layers.0.qkv"), "nvfp4_per_token: rule 1 (*, layers 0,-2..-1)");
  EXPECT_EQ(recipe_of(layers, "layers.1.qkv"), "bf16: base recipe");
  EXPECT_EQ(recipe_of(layers, "layers.2.qkv"), "nvfp4_per_token: rule 1 (*, layers 0,-2..-1)");
  EXPECT_EQ(recipe_of(layers, "layers.3.o"), "nvfp4_per_token: rule 1 (*, layers 0,-2..-1)");
}

TEST(Resolve, TheHeadHasToBeNamed) {
  const std::string head = "rules:\n  - {match: lm_head, recipe: nvfp4_per_token}\n";
  EXPECT_EQ(recipe_of(resolved("bf16", head), "lm_head"), "nvfp4_per_token: rule 1 (lm_head)");
  const std::string all = "rules:\n  - {match: \"**\", recipe: nvfp4_per_token}\n";
  EXPECT_EQ(recipe_of(resolved("bf16", all), "lm_head"), "bf16: stays high precision");
}

TEST(Resolve, ARuleWithoutAMatchIsAnError) {
  expect_error(ErrorCode::invalid_argument, {"rule 2", ":3", "layers.*.oo", "none of 9 modules"}, [] {
    (void)resolved("bf16",
                   "rules:\n  - {match: lm_head, recipe: fp32}\n  - {match: layers.*.oo, recipe: fp32}\n");
  });
  expect_error(ErrorCode::invalid_argument, {":2: lm_head, layers 0)"},
               [] { (void)resolved("bf16", "rules:\n  - {match: lm_head, layers: 0, recipe: fp32}\n"); });
}

TEST(Resolve, LayersOutsideTheModelAreAnError) {
  expect_error(ErrorCode::invalid_argument, {"rule 1", "r.yaml:2", "layer 4", "0 to 3"},
               [] { (void)resolved("bf16", "rules:\n  - {layers: 2..4, recipe: fp32}\n"); });
  expect_error(ErrorCode::invalid_argument, {"layer -5"},
               [] { (void)resolved("bf16", "rules:\n  - {layers: -5, recipe: fp32}\n"); });
  expect_error(ErrorCode::invalid_argument, {"layers 3..-3", "3 to 1", "empty"},
               [] { (void)resolved("bf16", "rules:\n  - {layers: 3..-3, recipe: fp32}\n"); });
}

TEST(Resolve, KHasToFitTheForwardBlocks) {
  const std::vector<LinearModule> modules = {{"layers.0.qkv", 0, 288, 100, true}};
  expect_error(ErrorCode::invalid_argument,
               {"layers.0.qkv: K=100 must be a multiple of 16 for nvfp4 (w is 288x100)"},
               [&] { (void)resolve("nvfp4_per_token", {}, modules, 1); });
  EXPECT_NO_THROW((void)resolve("bf16", {}, modules, 1));
  const std::vector<Rule> rescue = {{"layers.0.qkv", {}, "bf16", 0, ""}};
  EXPECT_NO_THROW((void)resolve("nvfp4_per_token", rescue, modules, 1)) << "only the winning recipe counts";
}

TEST(Resolve, NHasToFitTheBlocksOfDgrad) {
  const std::vector<LinearModule> modules = {{"layers.0.o", 0, 48, 64, true}};
  expect_error(ErrorCode::invalid_argument,
               {"layers.0.o: N=48 must be a multiple of 32 for mxfp8 in dgrad", "48x64"},
               [&] { (void)resolve("nvfp4_per_token", {}, modules, 1); });
  EXPECT_NO_THROW((void)resolve("nvfp4_per_token_bf16_bwd", {}, modules, 1));
}

TEST(Resolve, ARouterHasToBeNamed) {
  const std::vector<LinearModule> modules = {{"layers.0.o", 0, 64, 64, true},
                                             {"layers.0.router", 0, 64, 64, false}};
  const auto router = [&](const char* match) {
    const std::vector<Rule> rules = {{match, {}, "nvfp4_per_token", 0, ""}};
    return resolve("bf16", rules, modules, 1)[1].recipe;
  };
  EXPECT_EQ(router("*"), "bf16");
  EXPECT_EQ(router("layers.0.*"), "bf16");
  EXPECT_EQ(router("layers.*"), "bf16");
  EXPECT_EQ(router("layers.*.router"), "nvfp4_per_token");
}

TEST(Resolve, MistakesInValuesAreErrors) {
  const std::vector<Rule> odd = {{"*", {1}, "bf16", 0, ""}};
  expect_error(ErrorCode::invalid_argument, {"pairs"},
               [&] { (void)resolve("bf16", odd, small_model(), kLayers); });
  const std::vector<LinearModule> empty = {{"layers.0.o", 0, 0, 64, true}};
  expect_error(ErrorCode::invalid_argument, {"0x64"}, [&] { (void)resolve("bf16", {}, empty, 1); });
  expect_error(ErrorCode::not_found, {"bf61"}, [] { (void)resolve("bf61", {}, small_model(), kLayers); });
}

TEST(Coverage, IsTheShareOfQuantizedParameters) {
  const Coverage none = coverage(resolve("bf16", {}, small_model(), kLayers));
  EXPECT_EQ(none.percent(), 0.0);
  const Coverage base = coverage(resolve("nvfp4_per_token", {}, small_model(), kLayers));
  const int64_t quantized = 4 * (96 * 64 + 64 * 32);
  EXPECT_EQ(base.quantized, quantized);
  EXPECT_EQ(base.parameters, quantized + 128 * 64);
  EXPECT_DOUBLE_EQ(base.percent(), 100.0 * quantized / (quantized + 128 * 64));
  EXPECT_EQ(coverage({}).percent(), 0.0);
  const std::vector<LinearModule> experts = {{"layers.0.experts.down", 0, 64, 32, true, 8},
                                             {"layers.0.router", 0, 8, 64, false}};
  EXPECT_EQ(coverage(resolve("nvfp4_per_token_bf16_bwd", {}, experts, 1)).quantized, 8 * 64 * 32);
}

}  // namespace
}  // namespace minite
