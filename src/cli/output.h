#pragma once
// What verbs write to stdout: text, aligned tables, one JSON document.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace minite::cli {

/// How a report is written.
enum class ReportStyle : uint8_t { text, json, markdown };

/// Adds --json, which sets `style`; returns the option, so that others can exclude it.
CLI::Option* add_json_flag(CLI::App& app, ReportStyle& style);
/// Adds --json and --markdown, of which one may be given.
void add_style_flags(CLI::App& app, ReportStyle& style);

/// Writes `text` to stdout. Error: io when it cannot be written, e.g. disk full.
void print(std::string_view text);
/// A JSON document with two spaces of indentation and a newline. Invalid UTF-8 in strings is replaced.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& document);
/// Writes json_text() to stdout.
void print_json(const nlohmann::ordered_json& document);

/// Sets row[name] to `value`; JSON knows finite numbers only, so that a value that is not becomes null and
/// row[name + "_nonfinite"] says which: "nan", "inf" or "-inf".
void set_number(nlohmann::ordered_json& row, const std::string& name, double value);
/// `value` for a table: `digits` significant digits, "nan", "inf" or "-inf".
[[nodiscard]] std::string number_text(double value, int digits = 5);
/// `value` with `decimals` digits behind the point, "nan", "inf" or "-inf".
[[nodiscard]] std::string fixed_text(double value, int decimals = 2);

/// "[2, 64]".
[[nodiscard]] std::string shape_text(const std::vector<int64_t>& shape);

/// Rows of cells under headers; cells beyond the headers are an error of the caller.
class Table {
 public:
  explicit Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Columns padded to their widest cell, two spaces apart, each line behind `indent` spaces.
  [[nodiscard]] std::string to_text(int indent = 0) const;
  /// A GitHub table; | in cells is escaped.
  [[nodiscard]] std::string to_markdown() const;

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace minite::cli
