#include "cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/fail.h"

namespace minite::cli {
namespace {

std::string padded_line(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                        int indent) {
  std::string line(static_cast<size_t>(indent), ' ');
  for (size_t i = 0; i < cells.size(); ++i) {
    line += cells[i];
    line.append(widths[i] - cells[i].size() + 2, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) {
    line += ' ';
    for (const char c : cell) line += c == '|' ? std::string("\\|") : std::string(1, c);
    line += " |";
  }
  return line + '\n';
}

/// "nan" without the sign that a NaN may have, "inf", "-inf"; empty for a finite value.
std::string nonfinite_word(double value) {
  if (std::isfinite(value)) return {};
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

CLI::Option* add_json_flag(CLI::App& app, ReportStyle& style) {
  return app.add_flag_callback(
      "--json", [&style] { style = ReportStyle::json; }, "one JSON document on stdout");
}

void add_style_flags(CLI::App& app, ReportStyle& style) {
  CLI::Option* json = add_json_flag(app, style);
  app.add_flag_callback(
         "--markdown", [&style] { style = ReportStyle::markdown; }, "Markdown, as in the documentation")
      ->excludes(json);
}

void print(std::string_view text) {
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorCode::io, "stdout: {}", std::strerror(errno));
  }
}

std::string json_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::ordered_json& document) { print(json_text(document)); }

void set_number(nlohmann::ordered_json& row, const std::string& name, double value) {
  const std::string word = nonfinite_word(value);
  row[name] = word.empty() ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  if (!word.empty()) row[name + "_nonfinite"] = word;
}

std::string number_text(double value, int digits) {
  const std::string word = nonfinite_word(value);
  return word.empty() ? fmt::format("{:.{}g}", value, digits) : word;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string fixed_text(double value, int decimals) {
  const std::string word = nonfinite_word(value);
  if (!word.empty()) return word;
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return text.find_first_of("123456789") == std::string::npos && text.front() == '-' ? text.substr(1) : text;
}

std::string Table::to_text(int indent) const {
  std::vector<size_t> widths;
  for (const std::string& header : headers_) widths.push_back(header.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = padded_line(headers_, widths, indent);
  for (const auto& row : rows_) text += padded_line(row, widths, indent);
  return text;
}

std::string Table::to_markdown() const {
  std::string text = markdown_line(headers_);
  text += markdown_line(std::vector<std::string>(headers_.size(), "---"));
  for (const auto& row : rows_) text += markdown_line(row);
  return text;
}

}  // namespace minite::cli
