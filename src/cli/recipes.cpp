// minite recipes: the recipe table.
#include <fmt/format.h>

#include <memory>

#include "cli/output.h"
#include "cli/recipe_json.h"
#include "cli/verb.h"
#include "minite/recipe.h"

namespace minite::cli {
namespace {

/// Both operands in one word where they agree: "mxfp8", else "bf16 x mxfp8".
std::string product_text(const MatmulSpec& product) {
  if (product.a == product.b) return to_string(product.a);
  return to_string(product.a) + " x " + to_string(product.b);
}

std::string source_text(const QLinearParams& params) {
  const std::string dgrad(to_string(params.dgrad.source));
  if (params.dgrad.source == params.wgrad.source) return dgrad;
  return fmt::format("{} / {}", dgrad, to_string(params.wgrad.source));
}

std::string table_text(ReportStyle style) {
  const bool markdown = style == ReportStyle::markdown;
  std::vector<std::string> headers = {"recipe",        "group",          "x", "w", "dgrad", "wgrad",
                                      "backward uses", "batch-invariant"};
  if (markdown) headers.emplace_back("purpose");
  Table table(headers);
  Table purposes({"recipe", "purpose"});
  for (const RecipeSpec& recipe : recipes()) {
    const QLinearParams& params = recipe.params;
    const std::string name(recipe.name);
    const std::string alias = recipe.alias.empty() ? "" : fmt::format(" (also `{}`)", recipe.alias);
    std::vector<std::string> cells = {markdown ? "`" + name + "`" + alias : name,
                                      std::string(to_string(recipe.group)),
                                      to_string(params.fprop.a),
                                      to_string(params.fprop.b),
                                      product_text(params.dgrad),
                                      product_text(params.wgrad),
                                      source_text(params),
                                      params.row_local() ? "yes" : "no"};
    if (markdown) cells.emplace_back(recipe.purpose);
    table.add(std::move(cells));
    purposes.add({recipe.alias.empty() ? name : fmt::format("{} = {}", name, recipe.alias),
                  std::string(recipe.purpose)});
  }
  return markdown ? table.to_markdown() : table.to_text() + "\n" + purposes.to_text();
}

int run(ReportStyle style) {
  if (style == ReportStyle::json) {
    nlohmann::ordered_json document;
    document["recipes"] = nlohmann::ordered_json::array();
    for (const RecipeSpec& recipe : recipes()) document["recipes"].push_back(to_json(recipe));
    print_json(document);
  } else {
    print(table_text(style));
  }
  return kOk;
}

}  // namespace

std::function<int()> add_recipes(CLI::App& app) {
  auto style = std::make_shared<ReportStyle>(ReportStyle::text);
  add_style_flags(app, *style);
  return [style] { return run(*style); };
}

}  // namespace minite::cli
