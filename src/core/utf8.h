#pragma once
// UTF-8 reading shared by the tokenizer and the data readers. Overlong forms, surrogates and code points
// above U+10FFFF are refused, as in RFC 3629.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace minite {

struct Utf8Char {
  char32_t code_point = 0;
  size_t bytes = 0;  ///< 1 to 4
};

/// The character that starts at byte `position` (position < text.size()), or nothing if it is ill-formed.
inline std::optional<Utf8Char> read_utf8(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return Utf8Char{first, 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() - position < bytes) return std::nullopt;
  char32_t code_point = first & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kSmallest[bytes] || surrogate || code_point > 0x10FFFF) return std::nullopt;
  return Utf8Char{code_point, bytes};
}

/// Byte offset of the first ill-formed sequence, or nothing when all of `text` is valid UTF-8.
inline std::optional<size_t> first_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto next = read_utf8(text, i);
    if (!next) return i;
    i += next->bytes;
  }
  return std::nullopt;
}

/// Appends `code_point` (a Unicode scalar value) to `out`.
inline void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(static_cast<uint8_t>(bits))); };
  if (code_point < 0x80) return put(code_point);
  const int tail = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  constexpr char32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  put(kLead[tail] | (code_point >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) put(0x80 | ((code_point >> (6 * i)) & 0x3F));
}

/// `bytes` as valid UTF-8: every longest beginning of a character that is not continued, and every byte that
/// begins none, becomes U+FFFD (The Unicode Standard 15.0, 3.9, "U+FFFD Substitution of Maximal Subparts").
std::string lossy_utf8(std::string_view bytes);

/// `text` for a message: printable ASCII as it is, other bytes as \xNN, cut with "..." after `limit` bytes.
std::string printable(std::string_view text, size_t limit = 60);

}  // namespace minite
