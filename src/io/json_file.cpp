#include "io/json_file.h"

#include <algorithm>
#include <limits>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "core/utf8.h"

namespace minite::io {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr size_t kReasonLimit = 300;

// nlohmann writes "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...".
std::string reason_of(const nlohmann::json::exception& error) {
  const std::string_view what = error.what();
  const size_t column = what.find("column ");
  const size_t colon = what.find(": ", column == std::string_view::npos ? 0 : column);
  return printable(colon == std::string_view::npos ? what : what.substr(colon + 2), kReasonLimit);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& name, int64_t first_line) {
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    const size_t at = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const std::string_view before = text.substr(0, at);
    const auto line = first_line + std::count(before.begin(), before.end(), '\n');
    const size_t newline = before.rfind('\n');
    const size_t column = at - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    fail(ErrorCode::corrupt_data, "{}:{}:{}: not valid JSON: {}", name, line, column, reason_of(error));
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    fail(ErrorCode::corrupt_data, "{}:{}: not valid JSON: {}", name, first_line, reason_of(error));
  }
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_text_file(path.string(), kNoLimit), path.string());
}

void write_json_file(const std::filesystem::path& path, const nlohmann::json& document) {
  std::string text;
  try {
    text = document.dump(2);
  } catch (const nlohmann::json::exception& error) {  // a string that is not UTF-8
    fail(ErrorCode::invalid_argument, "cannot write {}: {}", path.string(), reason_of(error));
  }
  write_file_atomically(path, text + "\n");
}

JsonLines read_json_lines(const std::filesystem::path& path) {
  const std::string text = read_text_file(path.string(), kNoLimit);
  JsonLines lines;
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    const bool unfinished = end == text.size();
    begin = end + 1;
    if (line.empty()) continue;
    if (unfinished && !nlohmann::json::accept(line.begin(), line.end())) {
      lines.cut_line = number;
      break;
    }
    auto row = parse_json(line, path.string(), number);
    if (!row.is_object()) {
      fail(ErrorCode::corrupt_data, "{}:{}: each line must be one JSON object, this one is {}", path.string(),
           number, row.type_name());
    }
    lines.rows.push_back(std::move(row));
    lines.numbers.push_back(number);
  }
  return lines;
}

double logged_number(const nlohmann::json& row, const std::string& name) {
  const nlohmann::json& value = row.at(name);
  if (value.is_number()) return value.get<double>();
  const auto it = row.find(name + "_nonfinite");
  const std::string kind = it != row.end() && it->is_string() ? it->get<std::string>() : "nan";
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return kind == "inf" ? kInf : kind == "-inf" ? -kInf : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace minite::io
