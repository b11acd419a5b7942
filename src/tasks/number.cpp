#include "tasks/number.h"

namespace minite::tasks {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// The number that starts exactly at `begin`, or nothing.
  std::optional<FoundNumber> number_at(size_t begin) const {
    FoundNumber found;
    found.begin = begin;
    size_t at = begin;
    if (is_sign(at)) found.value.negative = text_[at++] == '-';
    const size_t digits = run(at);
    found.value.integer = text_.substr(at, digits);
    at += digits;
    if (digits >= 1 && digits <= 3) {
      for (; is_group(at); at += 4) found.value.integer += text_.substr(at + 1, 3);
    }
    if (at < text_.size() && text_[at] == '.') {
      const size_t decimals = run(at + 1);
      found.value.fraction = text_.substr(at + 1, decimals);
      if (decimals > 0) at += 1 + decimals;
    }
    if (found.value.integer.empty() && found.value.fraction.empty()) return std::nullopt;
    found.end = at;
    canonicalise(found.value);
    return found;
  }

 private:
  bool is_sign(size_t at) const {
    if (text_[at] != '-' && text_[at] != '+') return false;
    if (at == 0) return true;
    const char before = text_[at - 1];
    return !is_digit(before) && !is_letter(before) && before != ')';
  }

  /// How many digits start at `at`.
  size_t run(size_t at) const {
    size_t end = at;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    return end - at;
  }

  bool is_group(size_t at) const { return at < text_.size() && text_[at] == ',' && run(at + 1) == 3; }

  static void canonicalise(Decimal& number) {
    number.integer.erase(0, std::min(number.integer.find_first_not_of('0'), number.integer.size()));
    number.fraction.erase(number.fraction.find_last_not_of('0') + 1);
    if (number.integer.empty() && number.fraction.empty()) number.negative = false;
  }

  std::string_view text_;
};

}  // namespace

std::optional<FoundNumber> last_number(std::string_view text) {
  const Scanner scanner(text);
  std::optional<FoundNumber> last;
  for (size_t at = 0; at < text.size();) {
    auto found = scanner.number_at(at);
    at = found ? found->end : at + 1;
    if (found) last = std::move(found);
  }
  return last;
}

}  // namespace minite::tasks
