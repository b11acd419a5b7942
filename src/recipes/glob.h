#pragma once
// Glob patterns on module names.
#include <string_view>

namespace minite {

/// Whether `pattern` matches all of `text`: * stands for any run of characters (dots too, and none at all), ?
/// for one character, everything else for itself. Time is O(pattern * text).
[[nodiscard]] constexpr bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;  // the last * seen, and the text position it was tried at
  size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace minite
