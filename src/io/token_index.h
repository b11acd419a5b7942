#pragma once
// From the text of a token to its id.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/digest.h"

namespace minite::io {

/// An open hash table; the texts belong to the caller and must stay as they are.
class TokenIndex {
 public:
  TokenIndex() = default;
  /// Of tokens[i] the id is i; empty texts are left out, of equal texts the first counts.
  explicit TokenIndex(std::span<const std::string> tokens) {
    size_t size = 16;
    while (size < 2 * tokens.size()) size *= 2;
    slots_.assign(size, -1);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].empty()) continue;
      int32_t& slot = slots_[place(tokens, tokens[i])];
      if (slot < 0) slot = static_cast<int32_t>(i);
    }
  }
  /// The id of `text`, or -1. `tokens` as given to the constructor.
  [[nodiscard]] int32_t find(std::span<const std::string> tokens, std::string_view text) const {
    return slots_.empty() ? -1 : slots_[place(tokens, text)];
  }

 private:
  /// The slot of `text`: the one that holds it, else the empty one where it would be.
  [[nodiscard]] size_t place(std::span<const std::string> tokens, std::string_view text) const {
    const size_t mask = slots_.size() - 1;
    size_t at = digest64(text) & mask;
    while (slots_[at] >= 0 && tokens[static_cast<size_t>(slots_[at])] != text) at = (at + 1) & mask;
    return at;
  }

  std::vector<int32_t> slots_;
};

}  // namespace minite::io
