#include "core/yaml.h"

#include <algorithm>

#include "core/fail.h"

namespace minite::yaml {

std::string Place::of(const YAML::Mark& mark) const {
  return mark.is_null() ? origin : fmt::format("{}:{}", origin, mark.line + 1);
}

std::string scalar(const YAML::Node& node, std::string_view what, const Place& place) {
  require(node.IsScalar(), "{}: {} must be a plain value", place.of(node), what);
  return node.Scalar();
}

void check_word(const std::string& text, std::string_view what, const std::vector<std::string_view>& known,
                const YAML::Node& node, const Place& place) {
  if (std::find(known.begin(), known.end(), text) != known.end()) return;
  fail(ErrorCode::invalid_argument, "{}: unknown {} '{}'; allowed: {}{}", place.of(node), what, text,
       fmt::join(known, ", "), did_you_mean(text, known));
}

void check_keys(const YAML::Node& map, const std::vector<std::string_view>& known, const Place& place) {
  std::vector<std::string> seen;
  for (const auto& entry : map) {
    const std::string key = scalar(entry.first, "a key", place);
    check_word(key, "key", known, entry.first, place);
    require(std::find(seen.begin(), seen.end(), key) == seen.end(), "{}: key '{}' is written twice",
            place.of(entry.first), key);
    seen.push_back(key);
  }
}

std::vector<YAML::Node> items(const YAML::Node& node, std::string_view what, const Place& place) {
  if (!node.IsSequence()) {
    (void)scalar(node, what, place);
    return {node};
  }
  require(node.size() != 0, "{}: {} is an empty list; leave the key out for the default", place.of(node),
          what);
  std::vector<YAML::Node> all;
  for (const auto& item : node) {
    (void)scalar(item, what, place);
    all.push_back(item);
  }
  return all;
}

}  // namespace minite::yaml
