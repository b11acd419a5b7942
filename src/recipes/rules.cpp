// Rule files: YAML text to Rule values. Every error names file and line.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/fail.h"
#include "core/text_file.h"
#include "core/yaml.h"
#include "minite/recipe.h"

namespace minite {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 20;

using yaml::check_keys;
using yaml::Place;
using yaml::scalar;

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "3" or "2..5" or "-2..-1" becomes a first and a last layer.
void append_range(const YAML::Node& node, std::vector<int>& layers, const Place& place) {
  const std::string text = scalar(node, "layers", place);
  const auto dots = text.find("..");
  const bool single = dots == std::string::npos;
  const auto first = parse_int(std::string_view(text).substr(0, dots));
  const auto last = single ? first : parse_int(std::string_view(text).substr(dots + 2));
  require(first && last, "{}: layers '{}' is neither a number nor a range like 2..5 or -2..-1",
          place.of(node), text);
  // With signs mixed the order depends on the number of layers; resolve() checks that.
  require((*first < 0) != (*last < 0) || *first <= *last,
          "{}: layers '{}' is empty; write the smaller one first", place.of(node), text);
  layers.push_back(*first);
  layers.push_back(*last);
}

std::vector<int> parse_layers(const YAML::Node& node, const Place& place) {
  std::vector<int> layers;
  if (!node.IsSequence()) {
    append_range(node, layers, place);
    return layers;
  }
  require(node.size() != 0, "{}: layers is an empty list; leave the key out for all layers", place.of(node));
  for (const auto& item : node) append_range(item, layers, place);
  return layers;
}

Rule parse_rule(const YAML::Node& node, const Place& place) {
  require(node.IsMap(), "{}: a rule is a map with the keys match, layers, recipe", place.of(node));
  check_keys(node, {"match", "layers", "recipe"}, place);
  require(node["recipe"].IsDefined(), "{}: the rule has no recipe", place.of(node));
  Rule rule;
  rule.line = node.Mark().line + 1;
  rule.origin = place.origin;
  if (const auto match = node["match"]) {
    rule.match = scalar(match, "match", place);
    require(!rule.match.empty(), "{}: match is empty; * stands for all modules", place.of(match));
  }
  if (const auto layers = node["layers"]) rule.layers = parse_layers(layers, place);
  rule.recipe = scalar(node["recipe"], "recipe", place);
  try {
    (void)get_recipe(rule.recipe);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", place.of(node["recipe"]), error.what());
  }
  return rule;
}

std::vector<Rule> parse_document(const YAML::Node& root, const Place& place) {
  require(root.IsMap() && root["rules"].IsDefined(), "{}: a rule file is a map with the key rules",
          place.origin);
  check_keys(root, {"rules"}, place);
  const YAML::Node list = root["rules"];
  require(list.IsSequence(), "{}: rules must be a list", place.of(list));
  std::vector<Rule> rules;
  for (const auto& node : list) rules.push_back(parse_rule(node, place));
  return rules;
}

}  // namespace

std::vector<Rule> parse_rules(const std::string& text, const std::string& origin) {
  const Place place{origin};
  try {
    return parse_document(YAML::Load(text), place);
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::corrupt_data, "{}: {}", place.of(error.mark), error.msg);
  }
}

std::vector<Rule> load_rules(const std::string& path) {
  return parse_rules(read_text_file(path, kMaxFileBytes), path);
}

}  // namespace minite
