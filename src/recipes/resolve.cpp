// Base recipe, then rules: which numerics each linear module gets.
#include <algorithm>
#include <utility>

#include "core/fail.h"
#include "minite/recipe.h"
#include "recipes/default.h"
#include "recipes/glob.h"

namespace minite {
namespace {

using Range = std::pair<int, int>;  // first and last layer, both included

/// What a rule selects, as written: "layers.*.o", "*, layers 0,2..-1".
std::string selection(const Rule& rule) {
  std::string text = rule.match;
  for (size_t i = 0; i + 1 < rule.layers.size(); i += 2) {
    const int first = rule.layers[i];
    const int last = rule.layers[i + 1];
    text += i == 0 ? ", layers " : ",";
    text += first == last ? fmt::format("{}", first) : fmt::format("{}..{}", first, last);
  }
  return text;
}

/// "rule 2 (layers.*.o)"
std::string reason(const Rule& rule, size_t index) {
  return fmt::format("rule {} ({})", index + 1, selection(rule));
}

/// For messages: "rule 2 (rules.yaml:7: layers.*.o)"; without the line for rules that come from no file.
std::string place(const Rule& rule, size_t index) {
  if (rule.line == 0) return reason(rule, index);
  return fmt::format("rule {} ({}:{}: {})", index + 1, rule.origin, rule.line, selection(rule));
}

/// Layer ranges counted from the front.
std::vector<Range> layer_ranges(const Rule& rule, const std::string& name, int num_layers) {
  require(rule.layers.size() % 2 == 0, "{}: layers must be pairs of first and last", name);
  std::vector<Range> ranges;
  for (size_t i = 0; i < rule.layers.size(); i += 2) {
    const auto from_front = [&](int written) {
      const int layer = written < 0 ? num_layers + written : written;
      require(layer >= 0 && layer < num_layers, "{}: layer {} does not exist; the model has layers 0 to {}",
              name, written, num_layers - 1);
      return layer;
    };
    const Range range = {from_front(rule.layers[i]), from_front(rule.layers[i + 1])};
    require(range.first <= range.second, "{}: layers {}..{} are layers {} to {}, which is empty", name,
            rule.layers[i], rule.layers[i + 1], range.first, range.second);
    ranges.push_back(range);
  }
  return ranges;
}

/// "*" and "layers.3.*" speak for the modules that quantization covers; other modules have to be named.
bool names_everything(std::string_view pattern) {
  return pattern.substr(pattern.rfind('.') + 1).find_first_not_of('*') == std::string_view::npos;
}

bool matches(const Rule& rule, std::span<const Range> ranges, const LinearModule& module) {
  if (!module.covered && names_everything(rule.match)) return false;
  if (!glob_match(rule.match, module.name)) return false;
  return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
           return module.layer >= range.first && module.layer <= range.second;
         });
}

[[noreturn]] void fail_unmatched(const Rule& rule, const std::string& name,
                                 std::span<const LinearModule> modules) {
  std::vector<std::string_view> names;
  for (const LinearModule& module : modules) names.push_back(module.name);
  const std::string example = names.empty() ? "none" : std::string(names.front());
  std::string hint = did_you_mean(rule.match, names);
  if (hint.empty()) hint = fmt::format("; module names look like '{}'", example);
  fail(ErrorCode::invalid_argument, "{}: selects none of {} modules{}", name, modules.size(), hint);
}

/// The operand whose block is larger decides.
const Format& coarser(const MatmulSpec& product) {
  const Format& a = format(product.a.format);
  const Format& b = format(product.b.format);
  return a.block > b.block ? a : b;
}

void check_shape(const ResolvedLinear& linear) {
  const LinearModule& m = linear.module;
  require(m.n > 0 && m.k > 0, "{}: w is {}x{}; both sizes must be positive", m.name, m.n, m.k);
  const Format& fprop = coarser(linear.params.fprop);
  require(fprop.block == 0 || m.k % fprop.block == 0, "{}: K={} must be a multiple of {} for {} (w is {}x{})",
          m.name, m.k, fprop.block, fprop.name, m.n, m.k);
  const Format& dgrad = coarser(linear.params.dgrad);
  require(dgrad.block == 0 || m.n % dgrad.block == 0,
          "{}: N={} must be a multiple of {} for {} in dgrad (w is {}x{}, recipe {})", m.name, m.n,
          dgrad.block, dgrad.name, m.n, m.k, linear.recipe);
  // wgrad contracts tokens, whose last block is padded with zeros.
}

ResolvedLinear start(const LinearModule& module, const RecipeSpec& base) {
  if (module.covered) return {module, std::string(base.name), "base recipe", base.params};
  const bool single = base.params.fprop.a.format == FormatId::fp32;
  const RecipeSpec& high = get_recipe(single ? "fp32" : "bf16");
  return {module, std::string(high.name), "stays high precision", high.params};
}

}  // namespace

std::vector<ResolvedLinear> resolve(std::string_view base_recipe, std::span<const Rule> rules,
                                    std::span<const LinearModule> modules, int num_layers) {
  const RecipeSpec& base = recipe_or_default(base_recipe);
  std::vector<ResolvedLinear> result;
  for (const LinearModule& module : modules) result.push_back(start(module, base));

  for (size_t i = 0; i < rules.size(); ++i) {
    const Rule& rule = rules[i];
    const std::string name = place(rule, i);
    const RecipeSpec& recipe = get_recipe(rule.recipe);
    const std::vector<Range> ranges = layer_ranges(rule, name, num_layers);
    bool used = false;
    for (ResolvedLinear& linear : result) {
      if (!matches(rule, ranges, linear.module)) continue;
      linear.recipe = recipe.name;
      linear.reason = reason(rule, i);
      linear.params = recipe.params;
      used = true;
    }
    if (!used) fail_unmatched(rule, name, modules);
  }
  for (const ResolvedLinear& linear : result) {
    linear.params.validate();
    check_shape(linear);
  }
  return result;
}

}  // namespace minite
