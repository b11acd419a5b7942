#pragma once
// Decimal numbers in running text, compared by value without rounding.
#include <optional>
#include <string>
#include <string_view>

namespace minite::tasks {

/// A decimal number in canonical form, so that == compares values: "007.50" and "+7.5" are equal, as are "-0"
/// and "0". Of any length; never converted to floating point.
struct Decimal {
  bool negative = false;
  std::string integer;   ///< no leading zeros; "" for 0
  std::string fraction;  ///< no trailing zeros
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

/// A number and the bytes [begin, end) it covers in the text.
struct FoundNumber {
  Decimal value;
  size_t begin = 0;
  size_t end = 0;
};

/// The last number of `text`, or nothing. A number is digits with an optional fraction ("12", "1.5", ".5"),
/// optionally with commas between groups of three ("1,234,567"; in "1,2" the comma separates two numbers).
/// '-' or '+' right before it is its sign, unless a letter, digit or ')' comes before that ("5-3" ends in 3).
[[nodiscard]] std::optional<FoundNumber> last_number(std::string_view text);

}  // namespace minite::tasks
