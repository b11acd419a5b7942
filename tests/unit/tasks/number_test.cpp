#include "tasks/number.h"

#include "support.h"

namespace minite::tasks {
namespace {

std::string found(std::string_view text) {
  const auto number = last_number(text);
  if (!number) return "none";
  return std::string(text.substr(number->begin, number->end - number->begin));
}

TEST(Number, last_number_of_a_text) {
  EXPECT_EQ(found(""), "none");
  EXPECT_EQ(found("none here . , + -"), "none");
  EXPECT_EQ(found("a 12 b 34 c"), "34");
  EXPECT_EQ(found("5-3"), "3");
  EXPECT_EQ(found("x-3"), "3");
  EXPECT_EQ(found("(2)-3"), "3");
  EXPECT_EQ(found("is -3"), "-3");
  EXPECT_EQ(found("5 - -3"), "-3");
  EXPECT_EQ(found("1.50."), "1.50");
  EXPECT_EQ(found("about .5"), ".5");
  EXPECT_EQ(found("5."), "5");
  EXPECT_EQ(found("1,234,567.8"), "1,234,567.8");
  EXPECT_EQ(found("1,2"), "2");
  EXPECT_EQ(found("1,2345"), "2345");
  EXPECT_EQ(found("1234,567"), "567");
  EXPECT_EQ(found("$1,000 "), "1,000");
}

bool same(std::string_view a, std::string_view b) { return last_number(a)->value == last_number(b)->value; }

TEST(Number, values_are_compared_exactly) {
  EXPECT_TRUE(same("007.50", "+7.5"));
  EXPECT_TRUE(same("-0", "0.000"));
  EXPECT_TRUE(same("1,234", "1234"));
  EXPECT_TRUE(same(".5", "0.5"));
  EXPECT_FALSE(same("-7", "7"));
  EXPECT_FALSE(same("10", "1"));
  EXPECT_FALSE(same("0.1", "0.01"));
  // Neighbours that double cannot tell apart.
  EXPECT_FALSE(same("9007199254740993", "9007199254740992"));
  EXPECT_FALSE(same(std::string(5000, '9'), std::string(4999, '9') + "8"));
}

TEST(Number, arbitrary_bytes_never_throw) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::string text = random_bytes(seed, 40);
    for (char& c : text) {
      if (random_word(seed + 5000, static_cast<uint64_t>(c & 0xFF)) % 2 == 0) c = "0123456789.,+-"[c & 7];
    }
    const auto number = last_number(text);
    if (!number) continue;
    ASSERT_LT(number->begin, number->end);
    ASSERT_LE(number->end, text.size());
    // A number found stands alone, too.
    const auto again = last_number(std::string_view(text).substr(number->begin, number->end - number->begin));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->value, number->value);
  }
}

}  // namespace
}  // namespace minite::tasks
