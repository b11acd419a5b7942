#include "io/byte_level.h"

#include <array>

#include "core/utf8.h"

namespace minite::io {
namespace {

constexpr char32_t kFirstOther = 0x100;
constexpr int kOthers = 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Table {
  std::array<std::string, 256> character;
  std::array<unsigned char, kFirstOther + kOthers> byte{};  ///< of a character that some byte has
  std::array<bool, kFirstOther + kOthers> known{};

  Table() {
    char32_t next = kFirstOther;
    for (int b = 0; b < 256; ++b) {
      const char32_t c = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
      append_utf8(character[static_cast<size_t>(b)], c);
      byte[c] = static_cast<unsigned char>(b);
      known[c] = true;
    }
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

std::string_view byte_character(unsigned char byte) { return table().character[byte]; }

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char b : bytes) text += byte_character(static_cast<unsigned char>(b));
  return text;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  const Table& t = table();
  std::string bytes;
  for (size_t i = 0; i < text.size();) {
    const auto next = read_utf8(text, i);
    if (!next || next->code_point >= t.byte.size() || !t.known[next->code_point]) return std::nullopt;
    bytes += static_cast<char>(t.byte[next->code_point]);
    i += next->bytes;
  }
  return bytes;
}

}  // namespace minite::io
