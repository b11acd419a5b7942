#include "core/utf8.h"

#include <fmt/format.h>

namespace minite {

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out.push_back(c);
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > limit) out += "...";
  return out;
}

namespace {

/// Bytes of the ill-formed sequence at `at`: those that a well-formed one could begin with, at least 1.
size_t ill_formed_bytes(std::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = byte(at);
  const size_t length = first >= 0xF0 && first <= 0xF4   ? 4
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xC2 && first <= 0xDF ? 2
                                                         : 1;
  // The second byte of some first ones is bound more tightly (overlong forms, surrogates, beyond U+10FFFF).
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  size_t count = 1;
  while (count < length && at + count < bytes.size()) {
    const uint8_t next = byte(at + count);
    if (next < (count == 1 ? low : 0x80) || next > (count == 1 ? high : 0xBF)) break;
    ++count;
  }
  return count;
}

}  // namespace

std::string lossy_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    if (const auto next = read_utf8(bytes, i)) {
      text += bytes.substr(i, next->bytes);
      i += next->bytes;
    } else {
      append_utf8(text, 0xFFFD);
      i += ill_formed_bytes(bytes, i);
    }
  }
  return text;
}

}  // namespace minite
