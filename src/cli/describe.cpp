// minite describe: one recipe in full, and what it does to a model.
#include "recipes/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "backends/registry.h"
#include "backends/status.h"
#include "cli/output.h"
#include "cli/recipe_json.h"
#include "cli/recipe_kernels.h"
#include "cli/verb.h"
#include "core/text_file.h"
#include "io/gguf.h"
#include "learn/checkpoint.h"
#include "minite/model.h"
#include "minite/recipe.h"

namespace minite::cli {
namespace {

struct Options {
  std::string recipe;
  std::string model;
  std::string rules;
  std::string backend;
  ReportStyle style = ReportStyle::text;
};

/// Layers of equal shape, recipe and reason in one line: "layers.{0..1,4..27}.qkv".
struct LayerGroup {
  std::string suffix;  ///< ".qkv", or the whole name outside the layers
  const ResolvedLinear* first = nullptr;
  std::vector<int> layers;

  [[nodiscard]] bool same(const ResolvedLinear& other, std::string_view other_suffix) const {
    return suffix == other_suffix && first->module.n == other.module.n && first->module.k == other.module.k &&
           first->recipe == other.recipe && first->reason == other.reason;
  }
  [[nodiscard]] std::string name() const {
    if (layers.size() <= 1) return first->module.name;
    std::string ranges;
    for (size_t i = 0; i < layers.size();) {
      size_t j = i;
      while (j + 1 < layers.size() && layers[j + 1] == layers[j] + 1) ++j;
      ranges += ranges.empty() ? "" : ",";
      ranges += i == j ? fmt::format("{}", layers[i]) : fmt::format("{}..{}", layers[i], layers[j]);
      i = j + 1;
    }
    return "layers.{" + ranges + "}" + suffix;
  }
};

std::string suffix_of(const LinearModule& module) {
  if (module.layer < 0) return module.name;
  const std::string prefix = fmt::format("layers.{}", module.layer);
  return module.name.rfind(prefix, 0) == 0 ? module.name.substr(prefix.size()) : module.name;
}

std::string layers_text(std::span<const ResolvedLinear> layers) {
  std::vector<LayerGroup> groups;
  for (const ResolvedLinear& linear : layers) {
    const std::string suffix = suffix_of(linear.module);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.same(linear, suffix); });
    if (group == groups.end()) group = groups.insert(group, LayerGroup{suffix, &linear, {}});
    group->layers.push_back(linear.module.layer);
  }
  Table table({"layer", "N x K", "recipe", "because"});
  for (const LayerGroup& group : groups) {
    const LinearModule& module = group.first->module;
    const std::string times = module.count == 1 ? "" : fmt::format(", {} times", module.count);
    table.add({group.name(), fmt::format("{} x {}{}", module.n, module.k, times), group.first->recipe,
               group.first->reason});
  }
  const Coverage total = coverage(layers);
  return table.to_text() +
         fmt::format("\ncoverage  {:.2f} % of {} linear parameters are quantized in fprop\n", total.percent(),
                     total.parameters);
}

std::vector<ResolvedLinear> resolve_model(const Options& options) {
  std::error_code error;
  const bool checkpoint =
      std::filesystem::is_directory(options.model, error) || io::begins_as_gguf(options.model);
  const ModelConfig config = checkpoint ? load_model_config(options.model)
                                        : parse_model_config(read_text_file(options.model), options.model);
  const std::vector<Rule> rules = options.rules.empty() ? std::vector<Rule>{} : load_rules(options.rules);
  return resolve(options.recipe, rules, linear_modules(config), static_cast<int>(config.num_hidden_layers));
}

/// The backend of this name if this build holds its kernels, else nullptr.
const Backend* built_backend(std::string_view name) {
  for (const Backend& backend : backends()) {
    if (backend.name == name && backend.built != nullptr) return &backend;
  }
  return nullptr;
}

int run(const Options& options) {
  const RecipeDescription description = describe(get_recipe(options.recipe));
  std::optional<BackendStatus> backend;
  if (!options.backend.empty()) backend = backend_status(options.backend);
  std::optional<std::vector<ResolvedLinear>> layers;
  if (!options.model.empty()) layers = resolve_model(options);

  if (options.style == ReportStyle::json) {
    nlohmann::ordered_json document = to_json(description);
    if (backend) {
      document["backend"] = {
          {"name", backend->name}, {"available", backend->available}, {"reason", backend->reason}};
      if (const Backend* built = built_backend(backend->name))
        document["backend"]["kernels"] = kernels_json(get_recipe(options.recipe), *built);
    }
    if (layers) document["model"] = to_json(std::span<const ResolvedLinear>(*layers));
    print_json(document);
    return kOk;
  }
  std::string text = to_text(description);
  if (backend) {
    text += fmt::format("backend             {}: {}; {}\n", backend->name,
                        backend->available ? "available" : "not available", backend->reason);
    if (const Backend* built = built_backend(backend->name))
      text += kernels_text(get_recipe(options.recipe), *built);
  }
  if (layers) text += "\n" + layers_text(*layers);
  print(text);
  return kOk;
}

}  // namespace

std::function<int()> add_describe(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("recipe", options->recipe, "a name from `minite recipes`")->required();
  CLI::Option* model =
      app.add_option("--model", options->model, "config.json, the folder that holds it, or a GGUF file");
  app.add_option("--rules", options->rules, "YAML rule file: other recipes for some layers")->needs(model);
  app.add_option("--backend", options->backend,
                 "also say whether this backend can run here, and the kernel of each product");
  add_json_flag(app, options->style);
  return [options] { return run(*options); };
}

}  // namespace minite::cli
