#pragma once
// Answer checking: reward 1 for a response whose final answer is right, else 0. A checker is a row of one
// table. Responses are arbitrary bytes, because a model may write anything; no response throws.
#include <span>
#include <string>
#include <string_view>

#include "tasks/problem.h"

namespace minite::tasks {

struct Checker {
  std::string_view name;
  std::string_view description;
  /// Whether `response` answers a problem whose answer is `answer`.
  bool (*accepts)(std::string_view answer, std::string_view response);
  /// Why no response could ever match `answer`, or "" when it is a proper answer for this checker.
  std::string (*fault)(std::string_view answer);
};

/// The table: exact, numeric, expression.
[[nodiscard]] std::span<const Checker> checkers();

/// The row called `name`. Error (not_found) lists the names and offers the nearest.
[[nodiscard]] const Checker& checker(std::string_view name);

/// 1.0 if problem.check accepts `response`, else 0.0. Error (not_found) when the checker is unknown.
[[nodiscard]] double reward(const Problem& problem, std::string_view response);

/// The final answer of a response: what follows its last marker, '=' or '#', without surrounding ASCII white
/// space; all of it when it has no marker. With `own_markers` = m, for an answer that holds m markers itself
/// ("x=5"), the part after the (m+1)-th marker from the end. The result is a view into `response`.
[[nodiscard]] std::string_view final_answer(std::string_view response, size_t own_markers = 0);

}  // namespace minite::tasks
