#include "tasks/checker.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/fail.h"
#include "core/utf8.h"
#include "tasks/expression.h"
#include "tasks/number.h"

namespace minite::tasks {
namespace {

constexpr std::string_view kMarkers = "=#";
constexpr std::string_view kSpace = " \t\n\v\f\r";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

size_t count_markers(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return kMarkers.find(c) != kMarkers.npos; }));
}

bool accepts_exact(std::string_view answer, std::string_view response) {
  return final_answer(response, count_markers(answer)) == trim(answer);
}

std::string fault_exact(std::string_view answer) {
  return trim(answer).empty() ? "it holds only white space" : "";
}

bool accepts_numeric(std::string_view answer, std::string_view response) {
  const auto wanted = last_number(final_answer(answer));
  const auto got = last_number(final_answer(response));
  return wanted && got && wanted->value == got->value;
}

std::string fault_numeric(std::string_view answer) {
  std::string_view text = final_answer(answer);
  if (text.starts_with('$')) text.remove_prefix(1);
  if (text.ends_with('%') || text.ends_with('.')) text.remove_suffix(1);
  const auto number = last_number(text);
  if (number && number->begin == 0 && number->end == text.size()) return "";
  return fmt::format("'{}' is not one decimal number such as 42, -1,234 or 0.5", printable(text));
}

bool accepts_expression(std::string_view answer, std::string_view response) {
  const auto wanted = evaluate_expression(trim(answer));
  const auto got = evaluate_expression(final_answer(response));
  return wanted && got && wanted->value == got->value && wanted->numbers == got->numbers;
}

std::string fault_expression(std::string_view answer) {
  if (evaluate_expression(trim(answer))) return "";
  return "it is not an expression of whole numbers, + - * / and parentheses, such as (9-2)*3";
}

constexpr std::array kCheckers = {
    Checker{"exact", "the final answer is the answer, character by character", accepts_exact, fault_exact},
    Checker{"numeric", "the last number of the final answer has the value of the answer", accepts_numeric,
            fault_numeric},
    Checker{"expression",
            "the final answer is an expression with the value of the answer that uses the same numbers",
            accepts_expression, fault_expression},
};

}  // namespace

std::span<const Checker> checkers() { return kCheckers; }

const Checker& checker(std::string_view name) {
  const auto row = std::find_if(kCheckers.begin(), kCheckers.end(),
                                [&](const Checker& candidate) { return candidate.name == name; });
  if (row != kCheckers.end()) return *row;
  std::vector<std::string_view> names;
  for (const Checker& known : kCheckers) names.push_back(known.name);
  fail(ErrorCode::not_found, "unknown check '{}'; known: {}{}", printable(name), fmt::join(names, ", "),
       did_you_mean(name, names));
}

double reward(const Problem& problem, std::string_view response) {
  return checker(problem.check).accepts(problem.answer, response) ? 1.0 : 0.0;
}

std::string_view final_answer(std::string_view response, size_t own_markers) {
  size_t begin = response.size();
  for (size_t markers = 0; begin > 0; --begin) {
    if (kMarkers.find(response[begin - 1]) == kMarkers.npos) continue;
    if (markers++ == own_markers) break;
  }
  return trim(response.substr(begin));
}

}  // namespace minite::tasks
