#pragma once
// Which tensors of which steps a run looks at: YAML in the words of nvdlfw_inspect. docs/stats.md has the
// grammar.
#include <cstdint>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/probe.h"

namespace minite::diagnostics {

/// Whose pass a tensor is of.
enum class Side : uint8_t { learner, sampler };
[[nodiscard]] std::string_view side_name(Side side);

/// A tensor of a module as rules and stats.jsonl name it.
enum class TensorKind : uint8_t {
  activation,  ///< Point::input
  weight,      ///< Point::weight
  output,      ///< Point::output
  gradient,    ///< Point::grad_output
  dgrad,       ///< Point::grad_input
  wgrad,       ///< main gradient of a parameter, at the end of the step
  // By columns, as a backward product reads them: Probe::columns().
  activation_wgrad,
  weight_dgrad,
  gradient_wgrad,
};
[[nodiscard]] std::span<const TensorKind> tensor_kinds();
[[nodiscard]] std::string_view tensor_name(TensorKind kind);
[[nodiscard]] TensorKind tensor_kind(Point point);
/// The operand by columns of an input, a weight or a grad_output.
[[nodiscard]] TensorKind operand_kind(Point point);

/// Steps first, first + every, ... up to last.
struct StepRange {
  int64_t first = 1, last = INT64_MAX;
};

/// What to take of some tensors of some modules at some steps.
struct ProbeRule {
  std::string name;   ///< of the section
  std::string place;  ///< "rules.yaml:7"
  std::vector<std::string> globs;
  std::vector<std::string> types;                            ///< parts of a module's name
  std::vector<std::pair<std::string, std::regex>> patterns;  ///< of the whole name
  std::set<TensorKind> tensors;
  std::set<Side> sides;
  std::set<std::string_view> stats;  ///< names of rows of statistics()
  bool dump_values = false, dump_codes = false;
  int64_t freq = 1;
  std::vector<StepRange> ranges = {StepRange{}};

  /// `module` is "layers.3.qkv" or "lm_head".
  [[nodiscard]] bool matches(std::string_view module) const;
  [[nodiscard]] bool acts_at(int64_t step) const;
};

/// The rules that stand for an empty rule file: every module, the usual statistics, every 10th step.
[[nodiscard]] std::string_view default_probe_rules();

/// Parses rules; `origin` stands for the file in messages, which name the line, the word and the nearest word
/// that is known. Errors: invalid_argument, corrupt_data (no YAML).
[[nodiscard]] std::vector<ProbeRule> parse_probe_rules(const std::string& text, const std::string& origin);

/// Throws invalid_argument when a rule matches none of `modules`.
void check_probe_rules(std::span<const ProbeRule> rules, std::span<const std::string> modules);

}  // namespace minite::diagnostics
