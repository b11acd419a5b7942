#include "diagnostics/probe_rules.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/fail.h"
#include "core/yaml.h"
#include "diagnostics/statistics.h"
#include "recipes/glob.h"

namespace minite::diagnostics {
namespace {

using yaml::Place;
using Words = std::vector<std::string_view>;

struct TensorWord {
  TensorKind kind;
  std::string_view name;
  std::string_view product;  ///< the product that makes the tensor, which names it too
  std::string_view group;    ///< the word for it and others
};
constexpr std::string_view kAll = "all", kOperands = "operands";
constexpr TensorWord kTensors[] = {
    {TensorKind::activation, "activation", "", kAll},
    {TensorKind::weight, "weight", "", kAll},
    {TensorKind::output, "output", "fprop", kAll},
    {TensorKind::gradient, "gradient", "", kAll},
    {TensorKind::dgrad, "dgrad", "", kAll},
    {TensorKind::wgrad, "wgrad", "", kAll},
    {TensorKind::activation_wgrad, "activation_wgrad", "", kOperands},
    {TensorKind::weight_dgrad, "weight_dgrad", "", kOperands},
    {TensorKind::gradient_wgrad, "gradient_wgrad", "", kOperands},
};
constexpr std::string_view kSides[] = {"learner", "sampler"};

/// What a feature may take: words of Transformer Engine's features.
struct Feature {
  std::string_view name;
  bool values, codes;  ///< statistics that it knows
  bool dumps;
};
constexpr Feature kFeatures[] = {
    {"LogTensorStats", true, true, false},
    {"LogFp8TensorStats", false, true, false},
    {"LogNvfp4TensorStats", false, true, false},
    {"DumpTensors", false, false, true},
};

bool parse_bool(const YAML::Node& node, std::string_view what, const Place& place) {
  const std::string text = yaml::scalar(node, what, place);
  const bool yes = text == "true" || text == "True", no = text == "false" || text == "False";
  require(yes || no, "{}: {} is '{}'; use true or false", place.of(node), what, text);
  return yes;
}

int64_t parse_step(const YAML::Node& node, std::string_view what, int64_t least, const Place& place) {
  const std::string text = yaml::scalar(node, what, place);
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  require(error == std::errc() && stop == end && value >= least,
          "{}: {} is '{}', expected a whole number from {}", place.of(node), what, text, least);
  return value;
}

std::set<TensorKind> parse_tensors(const YAML::Node& node, const Place& place) {
  Words known = {kAll, kOperands};
  for (const TensorWord& t : kTensors) {
    known.push_back(t.name);
    if (!t.product.empty()) known.push_back(t.product);
  }
  std::set<TensorKind> kinds;
  for (const YAML::Node& item : yaml::items(node, "tensors", place)) {
    const std::string word = item.Scalar();
    yaml::check_word(word, "tensor", known, item, place);
    for (const TensorWord& t : kTensors) {
      if (word == t.group || word == t.name || word == t.product) kinds.insert(t.kind);
    }
  }
  return kinds;
}

std::set<Side> parse_sides(const YAML::Node& node, const Place& place) {
  std::set<Side> sides;
  for (const YAML::Node& item : yaml::items(node, "sides", place)) {
    yaml::check_word(item.Scalar(), "side", {kSides[0], kSides[1]}, item, place);
    sides.insert(item.Scalar() == kSides[0] ? Side::learner : Side::sampler);
  }
  return sides;
}

bool knows(const Feature& feature, const Statistic& s) { return s.of_codes ? feature.codes : feature.values; }

std::set<std::string_view> parse_stats(const YAML::Node& node, const Feature& feature, const Place& place) {
  Words known = {"usual", "all"};
  for (const Statistic& s : statistics()) {
    if (!knows(feature, s)) continue;
    known.push_back(s.name);
    if (!s.alias.empty()) known.push_back(s.alias);
  }
  std::set<std::string_view> chosen;
  for (const YAML::Node& item : yaml::items(node, "stats", place)) {
    const std::string word = item.Scalar();
    yaml::check_word(word, fmt::format("statistic of {}", feature.name), known, item, place);
    for (const Statistic& s : statistics()) {
      const bool group = word == "all" || (word == "usual" && s.usual);
      if (knows(feature, s) && (group || word == s.name || word == s.alias)) chosen.insert(s.name);
    }
  }
  return chosen;
}

std::set<std::string_view> usual_stats(const Feature& feature) {
  std::set<std::string_view> chosen;
  for (const Statistic& s : statistics()) {
    if (s.usual && knows(feature, s) && !feature.dumps) chosen.insert(s.name);
  }
  return chosen;
}

std::vector<StepRange> parse_ranges(const YAML::Node& node, const Place& place) {
  require(node.IsSequence() && node.size() > 0, "{}: start_end_list must be a list of [first, last]",
          place.of(node));
  std::vector<StepRange> ranges;
  for (const auto& pair : node) {
    require(pair.IsSequence() && pair.size() == 2, "{}: start_end_list must be a list of [first, last]",
            place.of(pair));
    ranges.push_back(
        {parse_step(pair[0], "a first step", 0, place), parse_step(pair[1], "a last step", 0, place)});
  }
  return ranges;
}

/// Settings that a feature and each entry of its tensors_struct may hold.
void apply_settings(const YAML::Node& node, const Feature& feature, ProbeRule& rule, const Place& place) {
  if (const auto tensors = node["tensors"]) rule.tensors = parse_tensors(tensors, place);
  if (const auto tensor = node["tensor"]) rule.tensors = parse_tensors(tensor, place);
  if (const auto sides = node["sides"]) rule.sides = parse_sides(sides, place);
  if (const auto stats = node["stats"]) rule.stats = parse_stats(stats, feature, place);
  if (const auto freq = node["freq"]) rule.freq = parse_step(freq, "freq", 1, place);
  if (const auto step = node["start_step"]) rule.ranges[0].first = parse_step(step, "start_step", 0, place);
  if (const auto step = node["end_step"]) rule.ranges[0].last = parse_step(step, "end_step", 0, place);
  if (const auto list = node["start_end_list"]) {
    require(!node["start_step"].IsDefined() && !node["end_step"].IsDefined(),
            "{}: start_end_list excludes start_step and end_step", place.of(list));
    rule.ranges = parse_ranges(list, place);
  }
  for (const StepRange& range : rule.ranges) {
    require(range.first <= range.last, "{}: the steps {} to {} hold none", place.of(node), range.first,
            range.last);
  }
  const auto flag = [&](const char* key, bool& value) {
    if (const auto entry = node[key]) value = parse_bool(entry, key, place);
  };
  flag("high_precision_tensor", rule.dump_values);
  flag("quantized_tensor", rule.dump_codes);
  bool dump = false;
  flag("dump", dump);
  if (dump) rule.dump_values = rule.dump_codes = true;
}

Words settings_of(const Feature& feature, bool entry) {
  Words words = {entry ? "tensor" : "tensors", "sides", "freq", "start_step", "end_step", "start_end_list"};
  if (!feature.dumps) words.insert(words.end(), {"stats", "dump"});
  if (feature.dumps) words.insert(words.end(), {"high_precision_tensor", "quantized_tensor"});
  if (!entry) words.insert(words.end(), {"enabled", "tensors_struct"});
  return words;
}

/// Operands by columns are made again from dumps of what they are made of.
void check_dump(const YAML::Node& node, const ProbeRule& rule, const Place& place) {
  if (!rule.dump_values && !rule.dump_codes) return;
  for (const TensorWord& t : kTensors) {
    require(t.group != kOperands || !rule.tensors.contains(t.kind),
            "{}: {} has statistics and no dump; dump the tensor that it is made of, and quantize that with "
            "`minite quantize --columnwise`",
            place.of(node), t.name);
  }
}

void add_feature(const Feature& feature, const YAML::Node& node, ProbeRule rule,
                 std::vector<ProbeRule>& rules, const Place& place) {
  require(node.IsMap(), "{}: {} must be a map of settings", place.of(node), feature.name);
  yaml::check_keys(node, settings_of(feature, false), place);
  if (const auto enabled = node["enabled"]; enabled && !parse_bool(enabled, "enabled", place)) return;
  for (const TensorWord& t : kTensors) {
    if (t.group == kAll) rule.tensors.insert(t.kind);
  }
  rule.sides = feature.dumps ? std::set{Side::learner} : std::set{Side::learner, Side::sampler};
  rule.stats = usual_stats(feature);
  rule.dump_values = rule.dump_codes = feature.dumps;
  apply_settings(node, feature, rule, place);
  const YAML::Node entries = node["tensors_struct"];
  if (!entries.IsDefined()) {
    check_dump(node, rule, place);
    rules.push_back(std::move(rule));
    return;
  }
  require(entries.IsSequence() && !node["tensors"].IsDefined(),
          "{}: tensors_struct must be a list, and stands in place of tensors", place.of(entries));
  for (const auto& entry : entries) {
    require(entry.IsMap() && entry["tensor"].IsDefined(), "{}: an entry of tensors_struct names its tensor",
            place.of(entry));
    yaml::check_keys(entry, settings_of(feature, true), place);
    ProbeRule one = rule;
    apply_settings(entry, feature, one, place);
    check_dump(entry, one, place);
    rules.push_back(std::move(one));
  }
}

void parse_layers(const YAML::Node& node, ProbeRule& rule, const Place& place) {
  const auto texts = [&](const YAML::Node& list, std::string_view what) {
    std::vector<std::string> all;
    for (const YAML::Node& item : yaml::items(list, what, place)) {
      all.push_back(item.Scalar());
      require(!all.back().empty(), "{}: {} is empty; * stands for all modules", place.of(item), what);
    }
    return all;
  };
  if (!node.IsMap()) {
    rule.globs = texts(node, "layers");
    return;
  }
  yaml::check_keys(node, {"layer_name_regex_pattern", "layer_types", "glob"}, place);
  require(node.size() > 0, "{}: layers names nothing; use \"*\" for all modules", place.of(node));
  if (const auto globs = node["glob"]) rule.globs = texts(globs, "glob");
  if (const auto types = node["layer_types"]) rule.types = texts(types, "layer_types");
  const auto patterns = node["layer_name_regex_pattern"];
  if (!patterns) return;
  for (const std::string& text : texts(patterns, "layer_name_regex_pattern")) {
    try {
      rule.patterns.emplace_back(text, std::regex(text));
    } catch (const std::regex_error& error) {
      fail(ErrorCode::invalid_argument, "{}: layer_name_regex_pattern '{}' is no regular expression: {}",
           place.of(patterns), text, error.what());
    }
  }
}

void add_section(const std::string& name, const YAML::Node& node, std::vector<ProbeRule>& rules,
                 const Place& place) {
  require(node.IsMap(), "{}: section {} must be a map with the keys enabled, layers, transformer_engine",
          place.of(node), name);
  yaml::check_keys(node, {"enabled", "layers", "transformer_engine", "minite"}, place);
  if (const auto enabled = node["enabled"]; enabled && !parse_bool(enabled, "enabled", place)) return;
  ProbeRule rule;
  rule.name = name;
  rule.globs = {"*"};
  if (const auto layers = node["layers"]) {
    rule.globs.clear();
    parse_layers(layers, rule, place);
  }
  Words known;
  for (const Feature& feature : kFeatures) known.push_back(feature.name);
  size_t features = 0;
  for (const char* owner : {"transformer_engine", "minite"}) {
    const YAML::Node map = node[owner];
    if (!map.IsDefined()) continue;
    require(map.IsMap(), "{}: {} must be a map of features", place.of(map), owner);
    yaml::check_keys(map, known, place);
    for (const Feature& feature : kFeatures) {
      const YAML::Node settings = map[std::string(feature.name)];
      if (!settings.IsDefined()) continue;
      ++features;
      rule.place = place.of(settings);
      add_feature(feature, settings, rule, rules, place);
    }
  }
  require(features > 0, "{}: section {} has no feature; write one of {} below transformer_engine",
          place.of(node), name, fmt::join(known, ", "));
}

}  // namespace

std::string_view side_name(Side side) { return kSides[static_cast<size_t>(side)]; }

std::string_view tensor_name(TensorKind kind) { return kTensors[static_cast<size_t>(kind)].name; }

std::span<const TensorKind> tensor_kinds() {
  static constexpr auto kKinds = [] {
    std::array<TensorKind, std::size(kTensors)> kinds{};
    for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kTensors[i].kind;
    return kinds;
  }();
  return kKinds;
}

TensorKind operand_kind(Point point) {
  return point == Point::input    ? TensorKind::activation_wgrad
         : point == Point::weight ? TensorKind::weight_dgrad
                                  : TensorKind::gradient_wgrad;
}

TensorKind tensor_kind(Point point) {
  constexpr TensorKind kKinds[] = {TensorKind::activation, TensorKind::weight, TensorKind::output,
                                   TensorKind::gradient, TensorKind::dgrad};
  return kKinds[static_cast<size_t>(point)];
}

bool ProbeRule::matches(std::string_view module) const {
  const auto fits = [&](const std::string& glob) { return glob_match(glob, module); };
  const auto holds = [&](const std::string& part) { return module.find(part) != std::string_view::npos; };
  const auto whole = [&](const auto& p) { return std::regex_match(module.begin(), module.end(), p.second); };
  return std::ranges::any_of(globs, fits) || std::ranges::any_of(types, holds) ||
         std::ranges::any_of(patterns, whole);
}

bool ProbeRule::acts_at(int64_t step) const {
  return std::ranges::any_of(ranges, [&](const StepRange& r) {
    return step >= r.first && step <= r.last && (step - r.first) % freq == 0;
  });
}

std::string_view default_probe_rules() {
  return R"(all:
  enabled: true
  layers: "*"
  minite:
    LogTensorStats: {tensors: all, stats: usual, freq: 10}
)";
}

std::vector<ProbeRule> parse_probe_rules(const std::string& text, const std::string& origin) {
  const Place place{origin};
  std::vector<ProbeRule> rules;
  try {
    const YAML::Node root = YAML::Load(text);
    require(root.IsMap() && root.size() > 0,
            "{}: probe rules are a map of named sections with the keys enabled, layers, transformer_engine",
            origin);
    for (const auto& entry : root)
      add_section(yaml::scalar(entry.first, "a section's name", place), entry.second, rules, place);
  } catch (const YAML::Exception& error) {
    fail(ErrorCode::corrupt_data, "{}: {}", place.of(error.mark), error.msg);
  }
  require(!rules.empty(), "{}: every section is disabled; enable one, or leave the probe off", origin);
  return rules;
}

void check_probe_rules(std::span<const ProbeRule> rules, std::span<const std::string> modules) {
  for (const ProbeRule& rule : rules) {
    if (std::ranges::any_of(modules, [&](const std::string& m) { return rule.matches(m); })) continue;
    fail(ErrorCode::invalid_argument, "{}: section {} matches no module; modules are {}", rule.place,
         rule.name, fmt::join(modules, ", "));
  }
}

}  // namespace minite::diagnostics
