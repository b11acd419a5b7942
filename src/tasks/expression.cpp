#include "tasks/expression.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace minite::tasks {
namespace {

constexpr int kDeepest = 64;  // nested parentheses; bounds the recursion on hostile text

using Value = std::optional<Rational>;

Value product(int64_t a, int64_t b, int64_t c, int64_t d) {  // (a/b) * (c/d), both in lowest terms
  const int64_t ad = std::max<int64_t>(1, std::gcd(a, d));
  const int64_t cb = std::max<int64_t>(1, std::gcd(c, b));
  Rational out;
  if (__builtin_mul_overflow(a / ad, c / cb, &out.numerator)) return std::nullopt;
  if (__builtin_mul_overflow(b / cb, d / ad, &out.denominator)) return std::nullopt;
  if (out.numerator == INT64_MIN) return std::nullopt;  // |INT64_MIN| does not exist, and gcd needs it
  return out;
}

Value multiply(const Rational& x, const Rational& y) {
  return product(x.numerator, x.denominator, y.numerator, y.denominator);
}

Value divide(const Rational& x, const Rational& y) {
  if (y.numerator == 0) return std::nullopt;
  const int64_t sign = y.numerator < 0 ? -1 : 1;
  return product(x.numerator, x.denominator, sign * y.denominator, sign * y.numerator);
}

Value combine(const Rational& x, const Rational& y, bool minus) {
  int64_t left = 0, right = 0;
  Rational out;
  if (__builtin_mul_overflow(x.numerator, y.denominator, &left)) return std::nullopt;
  if (__builtin_mul_overflow(y.numerator, x.denominator, &right)) return std::nullopt;
  if (minus ? __builtin_sub_overflow(left, right, &out.numerator)
            : __builtin_add_overflow(left, right, &out.numerator)) {
    return std::nullopt;
  }
  if (__builtin_mul_overflow(x.denominator, y.denominator, &out.denominator)) return std::nullopt;
  if (out.numerator == INT64_MIN) return std::nullopt;
  const int64_t common = std::max<int64_t>(1, std::gcd(out.numerator, out.denominator));
  return Rational{out.numerator / common, out.denominator / common};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Expression> parse() {
    const Value value = sum(0);
    if (!value || peek() != '\0' || at_ != text_.size()) return std::nullopt;
    std::sort(numbers_.begin(), numbers_.end());
    return Expression{*value, std::move(numbers_)};
  }

 private:
  /// The next character that is not a space, or NUL at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Value sum(int depth) {
    Value left = term(depth);
    while (left && (peek() == '+' || peek() == '-')) {
      const bool minus = text_[at_++] == '-';
      const Value right = term(depth);
      left = right ? combine(*left, *right, minus) : std::nullopt;
    }
    return left;
  }

  Value term(int depth) {
    Value left = factor(depth);
    while (left && (peek() == '*' || peek() == '/')) {
      const bool quotient = text_[at_++] == '/';
      const Value right = factor(depth);
      left = !right ? std::nullopt : quotient ? divide(*left, *right) : multiply(*left, *right);
    }
    return left;
  }

  Value factor(int depth) {
    if (peek() != '(') return number();
    if (depth == kDeepest) return std::nullopt;
    ++at_;
    const Value inside = sum(depth + 1);
    if (!inside || peek() != ')') return std::nullopt;
    ++at_;
    return inside;
  }

  Value number() {
    const char first = peek();
    if (first < '0' || first > '9') return std::nullopt;
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ += static_cast<size_t>(end - begin);
    numbers_.push_back(value);
    return Rational{value, 1};
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<int64_t> numbers_;
};

}  // namespace

std::optional<Expression> evaluate_expression(std::string_view text) { return Parser(text).parse(); }

}  // namespace minite::tasks
