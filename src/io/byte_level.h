#pragma once
// GPT-2's writing of bytes as printable characters: the alphabet of byte-level vocabularies.
#include <optional>
#include <string>
#include <string_view>

namespace minite::io {

/// The character of a byte, in UTF-8: bytes 33-126, 161-172 and 174-255 stand for themselves, the other 68 in
/// rising order are U+0100 and on.
[[nodiscard]] std::string_view byte_character(unsigned char byte);
/// Every byte of `bytes` by its character.
[[nodiscard]] std::string to_byte_level(std::string_view bytes);
/// The bytes that `text` stands for; nothing when it holds another character or is not UTF-8.
[[nodiscard]] std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace minite::io
