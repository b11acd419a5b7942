// One row per recipe. CLI help, describe, docs and the conformance suite iterate this table.
#include <array>
#include <vector>

#include "core/env.h"
#include "core/fail.h"
#include "minite/recipe.h"
#include "recipes/default.h"

namespace minite {
namespace {

constexpr std::array<std::string_view, 2> kSourceNames = {"saved_original", "dequantized"};
constexpr std::array<std::string_view, 3> kGroupNames = {"common", "reference", "experimental"};

constexpr QuantSpec kFp32 = {FormatId::fp32, OuterScale::none, Convention::te};
constexpr QuantSpec kBf16 = {FormatId::bf16, OuterScale::none, Convention::te};
constexpr QuantSpec kMxfp8 = {FormatId::mxfp8, OuterScale::none, Convention::te};
constexpr QuantSpec kNvfp4Row = {FormatId::nvfp4, OuterScale::row, Convention::te};
constexpr QuantSpec kNvfp4Tensor = {FormatId::nvfp4, OuterScale::tensor, Convention::te};

/// Both operands of a product in one format.
constexpr MatmulSpec both(QuantSpec spec, OperandSource source = OperandSource::saved_original) {
  return {spec, spec, source};
}
constexpr QLinearParams params(MatmulSpec forward, MatmulSpec backward) {
  return {forward, backward, backward};
}

constexpr std::array<RecipeSpec, 6> kRecipes = {{
    {"bf16", RecipeGroup::common,
     "high precision in all three products; the base that others are compared with", "none",
     params(both(kBf16), both(kBf16))},
    {"nvfp4_per_token", RecipeGroup::common,
     "NVFP4 forward with one outer scale a token and a weight row; MXFP8 backward from the saved originals",
     "NVFP4BlockScaling(row_scaled_activation=True, disable_rht=True, disable_stochastic_rounding=True, "
     "disable_2d_quantization=True)",
     params(both(kNvfp4Row), both(kMxfp8))},
    {"nvfp4_per_token_bf16_bwd", RecipeGroup::common,
     "NVFP4 forward with one outer scale a token and a weight row; BF16 backward from the saved originals",
     "NVFP4BlockScaling(row_scaled_activation=True, disable_rht=True, disable_stochastic_rounding=True, "
     "disable_2d_quantization=True, backward_override=\"high_precision\")",
     params(both(kNvfp4Row), both(kBf16))},
    {"fp32", RecipeGroup::reference, "single precision in all three products; for checking the others",
     "none", params(both(kFp32), both(kFp32))},
    {"nvfp4_per_tensor", RecipeGroup::reference,
     "NVFP4 forward with one outer scale a tensor; MXFP8 backward; shows what batch-dependent scales do",
     "NVFP4BlockScaling(disable_rht=True, disable_stochastic_rounding=True, disable_2d_quantization=True)",
     params(both(kNvfp4Tensor), both(kMxfp8))},
    {"nvfp4_per_token_dequant_bwd", RecipeGroup::experimental,
     "NVFP4 forward with one outer scale a token and a weight row; BF16 backward on the decoded forward "
     "codes",
     "NVFP4BlockScaling(row_scaled_activation=True, disable_rht=True, disable_stochastic_rounding=True, "
     "disable_2d_quantization=True, backward_override=\"dequantized\")",
     params(both(kNvfp4Row), both(kBf16, OperandSource::dequantized))},
}};

void validate_product(std::string_view pass, const MatmulSpec& product) {
  product.a.validate();
  product.b.validate();
  const bool a_fp32 = product.a.format == FormatId::fp32;
  const bool b_fp32 = product.b.format == FormatId::fp32;
  require(a_fp32 == b_fp32, "{}: fp32 needs fp32 on both sides, not {} with {}", pass, to_string(product.a),
          to_string(product.b));
}

void validate_source(std::string_view pass, const MatmulSpec& product, std::string_view operand,
                     const QuantSpec& forward) {
  if (product.source != OperandSource::dequantized) return;
  require(forward.quantized(),
          "{}: source=dequantized, but {} is {} in fprop, so there are no codes to decode", pass, operand,
          to_string(forward));
  // Decoded values are BF16; quantizing them a second time is no recipe anyone runs.
  require(product.b.format == FormatId::bf16, "{}: source=dequantized gives bf16 operands, not {}", pass,
          to_string(product.b));
}

}  // namespace

std::string_view to_string(OperandSource source) { return kSourceNames[static_cast<size_t>(source)]; }
std::string_view to_string(RecipeGroup group) { return kGroupNames[static_cast<size_t>(group)]; }

void QLinearParams::validate() const {
  validate_product("fprop", fprop);
  validate_product("dgrad", dgrad);
  validate_product("wgrad", wgrad);
  require(fprop.source == OperandSource::saved_original,
          "fprop: source={} makes sense in dgrad and wgrad only", to_string(fprop.source));
  validate_source("dgrad", dgrad, "w", fprop.b);
  validate_source("wgrad", wgrad, "x", fprop.a);
}

bool QLinearParams::row_local() const {
  // An expert's scale spans all tokens that were routed to it.
  return fprop.a.outer == OuterScale::none || fprop.a.outer == OuterScale::row;
}

std::span<const RecipeSpec> recipes() { return kRecipes; }

const RecipeSpec& get_recipe(std::string_view name) {
  std::vector<std::string_view> names;
  for (const RecipeSpec& row : kRecipes) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  fail(ErrorCode::not_found, "unknown recipe '{}' (`minite recipes` lists all){}", name,
       did_you_mean(name, names));
}

const RecipeSpec& recipe_or_default(std::string_view name) {
  if (!name.empty()) return get_recipe(name);
  const std::string_view chosen = env_recipe();
  try {
    return get_recipe(chosen);
  } catch (const Error& error) {
    fail(error.code(), "MINITE_RECIPE={}: {}", chosen, error.what());
  }
}

QLinearParams get_qlinear_params(std::string_view name) { return recipe_or_default(name).params; }

}  // namespace minite
