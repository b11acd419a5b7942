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

constexpr QuantSpec kFp32 = {.format = FormatId::fp32};
constexpr QuantSpec kBf16 = {.format = FormatId::bf16};
constexpr QuantSpec kMxfp8 = {.format = FormatId::mxfp8};
constexpr QuantSpec kRow = {.format = FormatId::nvfp4, .outer = OuterScale::row};
constexpr QuantSpec kTensor = {.format = FormatId::nvfp4, .outer = OuterScale::tensor};
constexpr QuantSpec kExpert = {.format = FormatId::nvfp4, .outer = OuterScale::expert};
constexpr QuantSpec kTile = {
    .format = FormatId::nvfp4, .outer = OuterScale::tensor, .blocks = BlockShape::tile};
constexpr QuantSpec kRow46 = {.format = FormatId::nvfp4,
                              .outer = OuterScale::row,
                              .search = ScaleSearch::four_six_mae,
                              .scale_max = 256};
// Transformer Engine's default roles: gradients are rounded stochastically, both operands of wgrad rotated.
constexpr QuantSpec kTensorSr = {
    .format = FormatId::nvfp4, .outer = OuterScale::tensor, .rounding = Rounding::stochastic};
constexpr QuantSpec kTensorRht = {
    .format = FormatId::nvfp4, .outer = OuterScale::tensor, .rotation = Rotation::hadamard};
constexpr QuantSpec kTensorSrRht = {.format = FormatId::nvfp4,
                                    .outer = OuterScale::tensor,
                                    .rounding = Rounding::stochastic,
                                    .rotation = Rotation::hadamard};

/// Both operands of a product in one format.
constexpr MatmulSpec both(QuantSpec spec, OperandSource source = OperandSource::saved_original) {
  return {spec, spec, source};
}
constexpr QLinearParams params(MatmulSpec forward, MatmulSpec backward) {
  return {forward, backward, backward};
}
/// A simulated element for the activations of fprop, beside the weights of nvfp4_per_token.
constexpr RecipeSpec sim(FormatId format, std::string_view name, std::string_view purpose) {
  return {name, RecipeGroup::experimental, purpose, {}, params({{.format = format}, kRow}, both(kBf16))};
}

constexpr std::string_view kTeRow =
    "NVFP4BlockScaling(row_scaled_activation=True, disable_rht=True, disable_stochastic_rounding=True, "
    "disable_2d_quantization=True)";
constexpr std::string_view kTeRowHighPrecision =
    "NVFP4BlockScaling(row_scaled_activation=True, disable_rht=True, disable_stochastic_rounding=True, "
    "disable_2d_quantization=True, backward_override=\"high_precision\")";

constexpr RecipeSpec kRecipes[] = {
    {"bf16",
     RecipeGroup::common,
     "high precision in all three products; the base that others are compared with",
     {},
     params(both(kBf16), both(kBf16))},
    {"nvfp4_per_token", RecipeGroup::common,
     "NVFP4 forward with one outer scale a token and a weight row; MXFP8 backward from the saved originals",
     kTeRow, params(both(kRow), both(kMxfp8))},
    {"nvfp4_per_token_bf16_bwd", RecipeGroup::common,
     "NVFP4 forward with one outer scale a token and a weight row; BF16 backward from the saved originals",
     kTeRowHighPrecision, params(both(kRow), both(kBf16))},
    {"nvfp4_cursor2_cutlass_v2", RecipeGroup::common,
     "NVFP4 forward with one outer scale a token and one a weight tensor (each expert's own); MXFP8 backward "
     "from the saved originals",
     kTeRow, params({kRow, kExpert}, both(kMxfp8)), "nvfp4_per_expert"},
    {"nvfp4_cursor2_cutlass_v2_bf16_bwd", RecipeGroup::common,
     "NVFP4 forward with one outer scale a token and one a weight tensor (each expert's own); BF16 backward "
     "from the saved originals",
     kTeRowHighPrecision, params({kRow, kExpert}, both(kBf16)), "nvfp4_per_expert_bf16_bwd"},
    {"mxfp8", RecipeGroup::common, "MXFP8 in all three products, backward operands from the saved originals",
     "MXFP8BlockScaling()", params(both(kMxfp8), both(kMxfp8))},
    {"nvfp4_w4a16",
     RecipeGroup::common,
     "NVFP4 weights with one outer scale a row, BF16 activations; BF16 backward from the saved originals",
     {},
     params({kBf16, kRow}, both(kBf16))},
    {"nvfp4_w4a8_mxfp8",
     RecipeGroup::common,
     "NVFP4 weights with one outer scale a row, MXFP8 activations; BF16 backward from the saved originals",
     {},
     params({kMxfp8, kRow}, both(kBf16))},
    {"fp32",
     RecipeGroup::reference,
     "single precision in all three products; for checking the others",
     {},
     params(both(kFp32), both(kFp32))},
    {"nvfp4_per_tensor", RecipeGroup::reference,
     "NVFP4 forward with one outer scale a tensor; MXFP8 backward; shows what batch-dependent scales do",
     "NVFP4BlockScaling(disable_rht=True, disable_stochastic_rounding=True, disable_2d_quantization=True)",
     params(both(kTensor), both(kMxfp8))},
    {"nvfp4_te",
     RecipeGroup::reference,
     "Transformer Engine's default: NVFP4 in all three products with one outer scale a tensor, 2D weights, "
     "rotated wgrad operands, stochastic rounding of gradients",
     "NVFP4BlockScaling()",
     {{kTensor, kTile}, {kTensorSr, kTile}, {kTensorSrRht, kTensorRht}}},
    {"nvfp4_2d",
     RecipeGroup::experimental,
     "NVFP4 in all three products with 2D weights, so that dgrad reads the values of fprop; one outer scale "
     "a "
     "token",
     "NVFP4BlockScaling(disable_rht=True, disable_stochastic_rounding=True)",
     {{kRow, kTile}, {kRow, kTile}, both(kRow)}},
    {"nvfp4_per_token_4over6", RecipeGroup::experimental,
     "NVFP4 forward with one outer scale a token and a weight row, block scales by 4over6 (MAE, 256); BF16 "
     "backward from the saved originals",
     "NVFP4BlockScaling(row_scaled_activation=True, disable_rht=True, disable_stochastic_rounding=True, "
     "disable_2d_quantization=True, nvfp4_4over6=\"all\", nvfp4_4over6_e4m3_use_256=\"all\", "
     "nvfp4_4over6_err_mode=\"MAE\", backward_override=\"high_precision\")",
     params(both(kRow46), both(kBf16))},
    {"nvfp4_per_token_dequant_bwd", RecipeGroup::experimental,
     "NVFP4 forward with one outer scale a token and a weight row; BF16 backward on the decoded forward "
     "codes",
     "NVFP4BlockScaling(row_scaled_activation=True, disable_rht=True, disable_stochastic_rounding=True, "
     "disable_2d_quantization=True, backward_override=\"dequantized\")",
     params(both(kRow), both(kBf16, OperandSource::dequantized))},
    sim(FormatId::sim_e2m1, "sim_e2m1",
        "NVFP4 weights, simulated E2M1 activations with E4M3 scales; BF16 backward"),
    sim(FormatId::sim_e3m1, "sim_e3m1",
        "NVFP4 weights, simulated E3M1 activations with E4M3 scales; BF16 backward"),
    sim(FormatId::sim_e4m1, "sim_e4m1",
        "NVFP4 weights, simulated E4M1 activations with E4M3 scales; BF16 backward"),
    sim(FormatId::sim_e5m1, "sim_e5m1",
        "NVFP4 weights, simulated E5M1 activations with E4M3 scales; BF16 backward"),
    sim(FormatId::sim_e2m2, "sim_e2m2",
        "NVFP4 weights, simulated E2M2 activations with E4M3 scales; BF16 backward"),
    sim(FormatId::sim_e2m3, "sim_e2m3",
        "NVFP4 weights, simulated E2M3 activations with E4M3 scales; BF16 backward"),
    sim(FormatId::sim_e2m4, "sim_e2m4",
        "NVFP4 weights, simulated E2M4 activations with E4M3 scales; BF16 backward"),
    sim(FormatId::sim_e2m1_e8m0, "sim_e2m1_e8m0",
        "NVFP4 weights, simulated E2M1 activations with E8M0 scales; BF16 backward"),
    sim(FormatId::sim_e3m1_e8m0, "sim_e3m1_e8m0",
        "NVFP4 weights, simulated E3M1 activations with E8M0 scales; BF16 backward"),
    sim(FormatId::sim_e4m1_e8m0, "sim_e4m1_e8m0",
        "NVFP4 weights, simulated E4M1 activations with E8M0 scales; BF16 backward"),
    sim(FormatId::sim_e5m1_e8m0, "sim_e5m1_e8m0",
        "NVFP4 weights, simulated E5M1 activations with E8M0 scales; BF16 backward"),
    sim(FormatId::sim_e2m2_e8m0, "sim_e2m2_e8m0",
        "NVFP4 weights, simulated E2M2 activations with E8M0 scales; BF16 backward"),
    sim(FormatId::sim_e2m3_e8m0, "sim_e2m3_e8m0",
        "NVFP4 weights, simulated E2M3 activations with E8M0 scales; BF16 backward"),
    sim(FormatId::sim_e2m4_e8m0, "sim_e2m4_e8m0",
        "NVFP4 weights, simulated E2M4 activations with E8M0 scales; BF16 backward"),
};

void validate_product(std::string_view pass, const MatmulSpec& product) {
  product.a.validate();
  product.b.validate();
  const bool a_fp32 = product.a.format == FormatId::fp32;
  const bool b_fp32 = product.b.format == FormatId::fp32;
  require(a_fp32 == b_fp32, "{}: fp32 needs fp32 on both sides, not {} with {}", pass, to_string(product.a),
          to_string(product.b));
  require(product.a.rotation == product.b.rotation,
          "{}: a rotation cancels only when both operands have it, not {} with {}", pass,
          to_string(product.a), to_string(product.b));
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
  // Learner and sampler quantize in the forward pass: noise or a rotation of one side would be a mismatch.
  require(fprop.a.rounding == Rounding::nearest && fprop.b.rounding == Rounding::nearest &&
              dgrad.b.rounding == Rounding::nearest,
          "sr is for gradients: fprop and w in dgrad are rounded to nearest");
  require(fprop.a.rotation == Rotation::none && dgrad.a.rotation == Rotation::none,
          "rht is for wgrad, whose operands are both quantized along tokens");
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
    if (row.name == name || (!row.alias.empty() && row.alias == name)) return row;
    names.push_back(row.name);
    if (!row.alias.empty()) names.push_back(row.alias);
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
