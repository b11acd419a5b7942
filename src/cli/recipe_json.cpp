#include "cli/recipe_json.h"

namespace minite::cli {

using nlohmann::ordered_json;

ordered_json to_json(const QuantSpec& spec) {
  ordered_json out;
  out["format"] = format(spec.format).name;
  if (spec.quantized()) {
    out["outer"] = to_string(spec.outer);
    out["convention"] = to_string(spec.convention);
    out["block"] = to_string(spec.blocks);
    out["scale_search"] = to_string(spec.search);
    out["scale_max"] = spec.scale_max;
    out["rotation"] = to_string(spec.rotation);
    out["rounding"] = to_string(spec.rounding);
  }
  out["text"] = to_string(spec);
  return out;
}

ordered_json to_json(const QLinearParams& params) {
  const auto product = [](const MatmulSpec& spec) {
    ordered_json out;
    out["a"] = to_json(spec.a);
    out["b"] = to_json(spec.b);
    out["source"] = to_string(spec.source);
    return out;
  };
  ordered_json out;
  out["fprop"] = product(params.fprop);
  out["dgrad"] = product(params.dgrad);
  out["wgrad"] = product(params.wgrad);
  return out;
}

ordered_json to_json(const RecipeSpec& recipe) {
  ordered_json out;
  out["name"] = recipe.name;
  if (!recipe.alias.empty()) out["alias"] = recipe.alias;
  out["group"] = to_string(recipe.group);
  out["purpose"] = recipe.purpose;
  out["te_equivalent"] = recipe.te_equivalent.empty() ? "none" : recipe.te_equivalent;
  out["row_local"] = recipe.params.row_local();
  out["params"] = to_json(recipe.params);
  return out;
}

ordered_json to_json(const RecipeDescription& description) {
  ordered_json out = to_json(*description.recipe);
  out["batch_invariance"] = description.batch_invariance;
  out["te_differences"] = description.te_differences;
  out["products"] = ordered_json::array();
  for (const ProductDescription& product : description.products) {
    ordered_json row;
    row["pass"] = product.pass;
    row["equation"] = product.equation;
    row["contracted"] = product.contracted;
    row["operands"] = ordered_json::array();
    for (const OperandDescription& operand : product.operands) {
      ordered_json cell;
      cell["operand"] = operand.operand;
      cell["shape"] = operand.shape;
      cell["spec"] = to_json(operand.spec);
      cell["scale_domain"] = operand.scale_domain;
      cell["source"] = operand.source;
      cell["layout"] = operand.layout;
      row["operands"].push_back(std::move(cell));
    }
    out["products"].push_back(std::move(row));
  }
  return out;
}

ordered_json to_json(std::span<const ResolvedLinear> layers) {
  ordered_json out;
  out["layers"] = ordered_json::array();
  for (const ResolvedLinear& linear : layers) {
    ordered_json row;
    row["name"] = linear.module.name;
    row["layer"] = linear.module.layer;
    row["n"] = linear.module.n;
    row["k"] = linear.module.k;
    row["count"] = linear.module.count;
    row["recipe"] = linear.recipe;
    row["reason"] = linear.reason;
    out["layers"].push_back(std::move(row));
  }
  const Coverage total = coverage(layers);
  out["parameters"] = total.parameters;
  out["quantized_parameters"] = total.quantized;
  out["coverage_percent"] = total.percent();
  return out;
}

}  // namespace minite::cli
