#pragma once
// YAML that people write: every error names the file and the line.
#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <vector>

namespace minite::yaml {

/// Where a node stands, for messages: "rules.yaml:7".
struct Place {
  const std::string& origin;
  [[nodiscard]] std::string of(const YAML::Mark& mark) const;
  [[nodiscard]] std::string of(const YAML::Node& node) const { return of(node.Mark()); }
};

/// The text of a plain value; `what` names it in the error.
[[nodiscard]] std::string scalar(const YAML::Node& node, std::string_view what, const Place& place);

/// Refuses keys that are not in `known` (the nearest one is offered), and keys that are written twice.
void check_keys(const YAML::Node& map, const std::vector<std::string_view>& known, const Place& place);

/// Throws invalid_argument unless `text` is in `known`; offers the nearest.
void check_word(const std::string& text, std::string_view what, const std::vector<std::string_view>& known,
                const YAML::Node& node, const Place& place);

/// The items of a list of plain values, or the one plain value.
[[nodiscard]] std::vector<YAML::Node> items(const YAML::Node& node, std::string_view what,
                                            const Place& place);

}  // namespace minite::yaml
