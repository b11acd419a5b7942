#include "tasks/jsonl.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "tasks/checker.h"

namespace minite::tasks {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <class... Args>
[[noreturn]] void fail_at(std::string_view place, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::corrupt_data, "{}: {}", place, fmt::format(format, std::forward<Args>(args)...));
}

/// Whether one inserted, deleted or replaced character turns `a` into `b`.
bool one_slip_apart(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1 || a == b) return false;
  size_t same = 0;
  while (same < a.size() && a[same] == b[same]) ++same;
  return a.substr(a.size() == b.size() ? same + 1 : same) == b.substr(same + 1);
}

/// What nlohmann says without its own "[json.exception...] parse error at line 1, column 7: ".
std::string_view bare_reason(std::string_view what) {
  const size_t column = what.find("column ");
  const size_t colon = what.find(": ", column == what.npos ? 0 : column);
  return column == what.npos || colon == what.npos ? what : what.substr(colon + 2);
}

json parse_object(std::string_view line, std::string_view place) {
  if (const auto bad = first_invalid_utf8(line)) {
    fail_at(place, "byte {} is not valid UTF-8; save the file as UTF-8", *bad + 1);
  }
  json object;
  try {
    object = json::parse(line);
  } catch (const json::parse_error& error) {
    fail_at(place, "malformed JSON at byte {} of {}: {}", error.byte, line.size(), bare_reason(error.what()));
  } catch (const json::exception& error) {  // e.g. a number beyond the range of double
    fail_at(place, "malformed JSON: {}", error.what());
  }
  if (!object.is_object()) {
    fail_at(place, "the line holds {} where an object {{\"prompt\": ..., \"answer\": ...}} is needed",
            object.type_name());
  }
  return object;
}

std::string text_of(const json& object, const char* key, std::string_view place) {
  const json& value = object.at(key);
  if (!value.is_string()) fail_at(place, "\"{}\" is {}; it must be a string", key, value.type_name());
  auto text = value.get<std::string>();
  if (text.empty()) fail_at(place, "\"{}\" is an empty string", key);
  return text;
}

std::string required_text(const json& object, const char* key, std::string_view place) {
  if (object.contains(key)) return text_of(object, key, place);
  std::vector<std::string> present;
  for (const auto& item : object.items()) present.push_back(printable(item.key()));
  fail_at(place, "missing key \"{}\"; the line has: {}", key,
          present.empty() ? "no keys" : fmt::format("{}", fmt::join(present, ", ")));
}

std::optional<std::string> optional_text(const json& object, const char* key, std::string_view place) {
  if (object.contains(key)) return text_of(object, key, place);
  for (const auto& item : object.items()) {
    if (!one_slip_apart(item.key(), key)) continue;
    fail_at(place, "unknown key \"{}\"; did you mean \"{}\"? Rename it either way", printable(item.key()),
            key);
  }
  return std::nullopt;
}

/// Why this problem cannot be used, or "".
std::string fault_of(const Problem& problem) {
  if (problem.prompt.empty()) return "the prompt is empty";
  if (problem.answer.empty()) return "the answer is empty";
  if (problem.response && problem.response->empty()) return "the response is empty; leave it out instead";
  const std::string fault = checker(problem.check).fault(problem.answer);
  if (fault.empty()) return "";
  return fmt::format("no response can match this answer with check {}: {}", problem.check, fault);
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

std::ifstream open_for_reading(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) {
    fail(ErrorCode::not_found, "{}: no such file; 'minite tasks make' writes one", path.string());
  }
  if (std::filesystem::is_directory(status)) {
    fail(ErrorCode::invalid_argument, "{}: is a folder; name a .jsonl file in it", path.string());
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail(ErrorCode::io, "{}: cannot be opened: {}", path.string(), std::generic_category().message(errno));
  }
  return file;
}

}  // namespace

Problem parse_problem(std::string_view line, std::string_view place) {
  const json object = parse_object(line, place);
  Problem problem;
  problem.prompt = required_text(object, "prompt", place);
  problem.answer = required_text(object, "answer", place);
  problem.response = optional_text(object, "response", place);
  if (auto check = optional_text(object, "check", place)) problem.check = std::move(*check);
  try {
    const std::string fault = fault_of(problem);
    if (!fault.empty()) fail_at(place, "{}", fault);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    fail_at(place, "{}", error.what());  // an unknown check: add the place
  }
  return problem;
}

std::vector<Problem> read_problems(const std::filesystem::path& path) {
  std::ifstream file = open_for_reading(path);
  std::vector<Problem> problems;
  std::string line;
  size_t number = 0;
  while (std::getline(file, line)) {
    ++number;
    std::string_view text = line;
    if (number == 1 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // byte order mark
    if (is_blank(text)) continue;
    problems.push_back(parse_problem(text, fmt::format("{}:{}", path.string(), number)));
  }
  if (file.bad()) fail(ErrorCode::io, "{}:{}: reading failed", path.string(), number + 1);
  if (problems.empty()) {
    fail(ErrorCode::corrupt_data, "{}: holds no problem ({} lines, all blank)", path.string(), number);
  }
  return problems;
}

std::string format_problem(const Problem& problem) {
  ordered_json object;
  object["prompt"] = problem.prompt;
  object["answer"] = problem.answer;
  if (problem.response) object["response"] = *problem.response;
  if (problem.check != "exact") object["check"] = problem.check;
  try {
    return object.dump();
  } catch (const json::exception&) {
    fail(ErrorCode::invalid_argument, "problem '{}': it holds bytes that are not UTF-8",
         printable(problem.prompt));
  }
}

void write_problems(const std::filesystem::path& path, std::span<const Problem> problems) {
  require(!problems.empty(), "{}: there is no problem to write", path.string());
  std::string text;
  for (size_t i = 0; i < problems.size(); ++i) {
    const std::string fault = fault_of(problems[i]);
    require(fault.empty(), "problem {} ('{}'): {}", i, printable(problems[i].prompt), fault);
    text += format_problem(problems[i]);
    text += '\n';
  }
  write_file_atomically(path, text);
}

}  // namespace minite::tasks
