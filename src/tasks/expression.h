#pragma once
// Arithmetic expressions in exact rational arithmetic: the checker of countdown problems.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace minite::tasks {

/// numerator / denominator in lowest terms, denominator > 0.
struct Rational {
  int64_t numerator = 0;
  int64_t denominator = 1;
  friend bool operator==(const Rational&, const Rational&) = default;
};

struct Expression {
  Rational value;
  std::vector<int64_t> numbers;  ///< every number written in it, ascending, repeats kept
};

/// Evaluates non-negative integers joined by + - * / and parentheses, with the usual precedence and spaces
/// allowed. Nothing for anything else: bad syntax, a sign before a number, division by zero, values that
/// leave 64 bits, more than 64 nested parentheses.
[[nodiscard]] std::optional<Expression> evaluate_expression(std::string_view text);

}  // namespace minite::tasks
