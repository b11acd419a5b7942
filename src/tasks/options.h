#pragma once
// Options of a generator: whole numbers with a name, a default and a range, parsed from "digits=3,terms=4".
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minite::tasks {

/// One option of one generator: a row of its table.
struct OptionRow {
  std::string_view name;
  int64_t fallback = 0;  ///< the value when it is not set
  int64_t lowest = 0;    ///< inclusive range
  int64_t highest = 0;
  std::string_view description;
};

/// A value for every row of a table.
class TaskOptions {
 public:
  /// Parses "name=value,name=value" (spaces around items allowed; "" gives the defaults). `owner` names the
  /// generator in errors (invalid_argument): unknown name with the nearest known one, a value that is not a
  /// whole number or is out of range, a name set twice.
  static TaskOptions parse(std::string_view owner, std::span<const OptionRow> rows, std::string_view text);

  /// The value of option `name`, which must be a row of the table.
  [[nodiscard]] int64_t get(std::string_view name) const;
  [[nodiscard]] std::span<const OptionRow> rows() const { return rows_; }
  /// Every option as "name=value,...": parse() of it gives the same options.
  [[nodiscard]] std::string to_string() const;

 private:
  explicit TaskOptions(std::span<const OptionRow> rows);
  std::span<const OptionRow> rows_;
  std::vector<int64_t> values_;  // aligned with rows_
};

/// Throws unless options.get(low) <= options.get(high).
void require_ordered(std::string_view owner, const TaskOptions& options, std::string_view low,
                     std::string_view high);

}  // namespace minite::tasks
