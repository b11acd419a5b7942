#include "tasks/options.h"

#include <algorithm>
#include <charconv>

#include "core/fail.h"
#include "core/utf8.h"

namespace minite::tasks {
namespace {

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

size_t find_row(std::string_view owner, std::span<const OptionRow> rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const OptionRow& r) { return r.name == name; });
  if (row != rows.end()) return static_cast<size_t>(row - rows.begin());
  std::vector<std::string_view> names;
  for (const OptionRow& known : rows) names.push_back(known.name);
  fail(ErrorCode::invalid_argument, "{}: unknown option '{}'; known: {}{}", owner, printable(name),
       fmt::join(names, ", "), did_you_mean(name, names));
}

int64_t parse_value(std::string_view owner, const OptionRow& row, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  require(whole && value >= row.lowest && value <= row.highest,
          "{}: option {}='{}' must be a whole number from {} to {}", owner, row.name, printable(text),
          row.lowest, row.highest);
  return value;
}

}  // namespace

TaskOptions::TaskOptions(std::span<const OptionRow> rows) : rows_(rows) {
  for (const OptionRow& row : rows) values_.push_back(row.fallback);
}

TaskOptions TaskOptions::parse(std::string_view owner, std::span<const OptionRow> rows,
                               std::string_view text) {
  TaskOptions options(rows);
  std::vector<bool> seen(rows.size(), false);
  while (!trim(text).empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    require(equals != item.npos, "{}: option '{}' must read name=value", owner, printable(item));
    const size_t row = find_row(owner, rows, trim(item.substr(0, equals)));
    require(!seen[row], "{}: option '{}' is set twice", owner, rows[row].name);
    seen[row] = true;
    options.values_[row] = parse_value(owner, rows[row], trim(item.substr(equals + 1)));
  }
  return options;
}

int64_t TaskOptions::get(std::string_view name) const { return values_[find_row("options", rows_, name)]; }

std::string TaskOptions::to_string() const {
  std::string text;
  for (size_t i = 0; i < rows_.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", rows_[i].name, values_[i]);
  }
  return text;
}

void require_ordered(std::string_view owner, const TaskOptions& options, std::string_view low,
                     std::string_view high) {
  require(options.get(low) <= options.get(high), "{}: option {}={} is above {}={}; set both", owner, low,
          options.get(low), high, options.get(high));
}

}  // namespace minite::tasks
