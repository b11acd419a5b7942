#include "recipes/describe.h"

#include <fmt/format.h>

namespace minite {
namespace {

struct PassRow {
  std::string_view pass, equation, contracted;
  std::string_view a, a_shape, b, b_shape;
};
constexpr std::array<PassRow, 3> kPasses = {{
    {"fprop", "y[M,N] = x[M,K] w[N,K]^T", "K", "x", "[M,K]", "w", "[N,K]"},
    {"dgrad", "dx[M,K] = dy[M,N] w[N,K]", "N", "dy", "[M,N]", "w^T", "[K,N]"},
    {"wgrad", "dw[N,K] = dy[M,N]^T x[M,K]", "M", "dy^T", "[N,M]", "x^T", "[K,M]"},
}};
// In OuterScale order; row 0 is not used.
constexpr std::array<std::string_view, 4> kOuterWords = {
    "", "one outer FP32 scale a tensor", "one outer FP32 scale an expert", "one outer FP32 scale a row"};
// In OperandSource order.
constexpr std::array<std::string_view, 2> kSourceWords = {"saved original", "decoded forward codes"};

std::string scale_domain(const QuantSpec& spec, std::string_view contracted) {
  const Format& row = format(spec.format);
  if (row.block == 0) return "none";
  const bool tile = spec.blocks == BlockShape::tile;
  std::string text =
      tile ? fmt::format("tiles of {0} x {0} ({1})", row.block, to_string(row.block_scale))
           : fmt::format("blocks of {} along {} ({})", row.block, contracted, to_string(row.block_scale));
  if (spec.search != ScaleSearch::amax) text += fmt::format(" chosen by {}", to_string(spec.search));
  if (spec.outer != OuterScale::none)
    text += fmt::format(", {}", kOuterWords[static_cast<size_t>(spec.outer)]);
  if (spec.rotation != Rotation::none) text += "; rotated by a 16-point Hadamard first";
  if (spec.rounding != Rounding::nearest) text += "; stochastic rounding";
  return text;
}

ProductDescription describe_product(const PassRow& row, const MatmulSpec& product, bool forward) {
  const auto operand = [&](std::string_view name, std::string_view shape, const QuantSpec& spec,
                           std::string_view source) {
    return OperandDescription{
        name, shape, spec, scale_domain(spec, row.contracted), source, format(spec.format).layout};
  };
  const std::string_view given = "given by the caller";
  const std::string_view saved = forward ? given : kSourceWords[static_cast<size_t>(product.source)];
  return {row.pass,
          row.equation,
          row.contracted,
          {operand(row.a, row.a_shape, product.a, given), operand(row.b, row.b_shape, product.b, saved)}};
}

/// Differences from Transformer Engine's nearest recipe, derived from the formats.
std::vector<std::string> te_differences(const RecipeSpec& recipe) {
  std::vector<std::string> result;
  const QLinearParams& params = recipe.params;
  if (recipe.te_equivalent.empty()) return result;
  if (params.fprop.b.outer == OuterScale::row) {
    result.emplace_back("w has one outer scale a row here, one a tensor there");
  }
  if (params.fprop.b.blocks == BlockShape::tile && params.fprop.a.outer == OuterScale::row) {
    result.emplace_back(
        "x and dy have one outer scale a row here, one a tensor there (2D blocks and row scales exclude "
        "each other there)");
  }
  for (const auto& [pass, product] : {std::pair{"dgrad", &params.dgrad}, std::pair{"wgrad", &params.wgrad}}) {
    if (product->a.rounding == Rounding::stochastic) {
      result.push_back(fmt::format("{}: stochastic rounding draws other random bits", pass));
    }
    if (!product->a.quantized() || product->a.format == params.fprop.a.format) continue;
    result.push_back(fmt::format("{} is {} here; there it is {}, as the forward product", pass,
                                 format(product->a.format).name, format(params.fprop.a.format).name));
  }
  return result;
}

}  // namespace

RecipeDescription describe(const RecipeSpec& recipe) {
  RecipeDescription d;
  d.recipe = &recipe;
  const QLinearParams& params = recipe.params;
  const std::array<const MatmulSpec*, 3> products = {&params.fprop, &params.dgrad, &params.wgrad};
  for (size_t i = 0; i < kPasses.size(); ++i)
    d.products[i] = describe_product(kPasses[i], *products[i], i == 0);
  d.row_local = params.row_local();
  d.batch_invariance =
      d.row_local ? "yes: every activation scale lies inside one row, so a token's result does not depend on "
                    "the other tokens"
                  : "no: one activation scale spans several tokens, so a token's result depends on its batch";
  d.te_differences = te_differences(recipe);
  return d;
}

std::string to_text(const RecipeDescription& d) {
  const RecipeSpec& recipe = *d.recipe;
  std::string text = fmt::format("{} ({})\n  {}\n", recipe.name, to_string(recipe.group), recipe.purpose);
  if (!recipe.alias.empty()) text += fmt::format("  also called {}\n", recipe.alias);
  text += "\n";
  for (const ProductDescription& product : d.products) {
    text += fmt::format("{}   {}   contracts {}\n", product.pass, product.equation, product.contracted);
    for (const OperandDescription& operand : product.operands) {
      text += fmt::format("  {:<5}{:<6} {:<21} {}; scales: {}\n", operand.operand, operand.shape,
                          to_string(operand.spec), operand.source, operand.scale_domain);
    }
  }
  text += "\nlayouts\n";
  for (const Format& row : formats()) {
    bool used = false;
    for (const ProductDescription& product : d.products) {
      for (const OperandDescription& operand : product.operands) used |= operand.spec.format == row.id;
    }
    if (used) text += fmt::format("  {:<6} {}\n", row.name, row.layout);
  }
  text += fmt::format("\nbatch-invariant     {}\ntransformer engine  {}\n", d.batch_invariance,
                      recipe.te_equivalent.empty() ? "none" : recipe.te_equivalent);
  for (const std::string& difference : d.te_differences) text += fmt::format("  differs: {}\n", difference);
  return text;
}

double Coverage::percent() const {
  return parameters == 0 ? 0.0 : 100.0 * static_cast<double>(quantized) / static_cast<double>(parameters);
}

Coverage coverage(std::span<const ResolvedLinear> layers) {
  Coverage c;
  for (const ResolvedLinear& linear : layers) {
    const int64_t size = linear.module.n * linear.module.k * linear.module.count;
    c.parameters += size;
    if (linear.params.fprop.b.quantized()) c.quantized += size;
  }
  return c;
}

}  // namespace minite
