#pragma once
// Tokens that stand outside the vocabulary of a model: found in a text before it is cut into pieces.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minite::io {

struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;     ///< left out by decode(), and found only where special tokens are meant
  bool normalized = false;  ///< looked for in the normalized text
};

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0, end = 0;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    TextRange at;
    int32_t id = 0;
  };
  /// The leftmost token in `text` from byte `from` on, of several that begin there the longest. Special ones
  /// count only where they lie inside one of `special` ranges, which do not overlap and rise.
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t from,
                                          std::span<const TextRange> special) const;
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

 private:
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, size_t at,
                                             std::span<const TextRange> special) const;

  std::vector<AddedToken> tokens_;            // by text
  std::vector<std::vector<size_t>> lengths_;  // [256] by first byte: lengths of tokens, falling
};

}  // namespace minite::io
