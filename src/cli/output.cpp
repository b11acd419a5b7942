#include "cli/output.h"

#include <algorithm>
#include <cerrno>
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

void print_json(const nlohmann::ordered_json& document) {
  print(document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
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
