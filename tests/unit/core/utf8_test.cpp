#include "core/utf8.h"

#include <gtest/gtest.h>

namespace minite {
namespace {

TEST(Utf8, every_scalar_value_round_trips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const auto back = read_utf8(text, 0);
    ASSERT_TRUE(back.has_value()) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(back->code_point, c);
    ASSERT_EQ(back->bytes, text.size());
  }
}

struct IllFormed {
  std::string text;
  size_t at;
};

TEST(Utf8, ill_formed_sequences_are_found) {
  const IllFormed cases[] = {
      {"a\x80", 1},             // lone continuation
      {"\xC0\xAF", 0},          // overlong slash
      {"\xE0\x80\xAF", 0},      // overlong, three bytes
      {"\xF0\x80\x80\xAF", 0},  // overlong, four bytes
      {"ab\xED\xA0\x80", 2},    // surrogate
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xF5\x80\x80\x80", 0},  // no such lead byte
      {"x\xE2\x82", 1},         // cut short
      {"\xC3(", 0},             // wrong continuation
      {std::string("\0\xFF", 2), 1},
  };
  for (const auto& c : cases) EXPECT_EQ(first_invalid_utf8(c.text), c.at) << printable(c.text);
  EXPECT_FALSE(first_invalid_utf8("").has_value());
  EXPECT_FALSE(first_invalid_utf8("plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80").has_value());
}

TEST(Utf8, printable_escapes_and_cuts) {
  EXPECT_EQ(printable(std::string("a\0\n\xFF", 4)), "a\\x00\\x0a\\xff");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("abc", 3), "abc");
}

}  // namespace
}  // namespace minite
