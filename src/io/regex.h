#pragma once
// Regular expressions over UTF-8 by PCRE2, with the classes that tokenizers mean.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace minite::io {

/// Working memory of matches: make one for many calls of cut(), on one thread.
class RegexMemory {
 public:
  RegexMemory();
  ~RegexMemory();

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

/// A compiled pattern. `\s` and `\S` are Unicode's White_Space, as in the engines for which the patterns of
/// tokenizers were written; PCRE2's own `\s` holds U+180E too. Other classes are Unicode's.
class Regex {
 public:
  /// Error: invalid_argument with the position, for a pattern that does not compile.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Appends the matches in `text` and what lies between them to `pieces`, in order, nothing empty: together
  /// they are `text`, valid UTF-8. Error: resource when a match takes more than PCRE2's limits allow.
  void cut(std::string_view text, RegexMemory& memory, std::vector<std::string_view>& pieces) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace minite::io
