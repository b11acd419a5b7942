#pragma once
// What happens to a text before byte pair encoding: Unicode normalization, and cutting into pieces.
#include <string>
#include <string_view>
#include <vector>

#include "io/regex.h"

namespace minite::io {

/// How a tokenizer.json writes the pattern of a known tokenizer.
struct SplitPattern {
  std::string_view name;
  std::string_view regex;
};
/// GPT-2's, Llama 3's and Qwen's patterns. A pattern that is not here is refused: engines of regular
/// expressions differ, and a text cut in other places is another text to a model.
[[nodiscard]] const std::vector<SplitPattern>& split_patterns();
/// The pattern of ByteLevel with use_regex, a row of split_patterns().
[[nodiscard]] std::string_view gpt2_pattern();
/// The patterns of Digits: one number character, or a run of them.
inline constexpr std::string_view kOneDigit = R"(\p{N})", kDigits = R"(\p{N}+)";

/// Cuts by patterns one after the other: the pieces of one are cut by the next.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(const std::vector<std::string_view>& patterns);
  /// The pieces of `text` (valid UTF-8), in order, nothing empty. Error: as Regex::cut().
  [[nodiscard]] std::vector<std::string_view> cut(std::string_view text) const;

 private:
  std::vector<Regex> steps_;
};

/// Normalization form C of valid UTF-8. Error: resource.
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace minite::io
