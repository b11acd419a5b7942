#include "tasks/expression.h"

#include "support.h"

namespace minite::tasks {
namespace {

TEST(Expression, values_and_numbers) {
  struct Case {
    const char* text;
    Rational value;
    std::vector<int64_t> numbers;
  };
  const Case cases[] = {
      {"7", {7, 1}, {7}},
      {"9-2*3", {3, 1}, {2, 3, 9}},
      {"(9-2)*3", {21, 1}, {2, 3, 9}},
      {"8-3-2", {3, 1}, {2, 3, 8}},
      {"8/4/2", {1, 1}, {2, 4, 8}},
      {"1/3+1/6", {1, 2}, {1, 1, 3, 6}},
      {"2-5", {-3, 1}, {2, 5}},
      {"(1-3)/(2-6)", {1, 2}, {1, 2, 3, 6}},
      {"1/(2-5)", {-1, 3}, {1, 2, 5}},
      {" ( 1 + 2 ) * 3 ", {9, 1}, {1, 2, 3}},
      {"0*5", {0, 1}, {0, 5}},
      {"0/5", {0, 1}, {0, 5}},
      {"007", {7, 1}, {7}},
  };
  for (const auto& c : cases) {
    const auto result = evaluate_expression(c.text);
    ASSERT_TRUE(result.has_value()) << c.text;
    EXPECT_EQ(result->value, c.value) << c.text;
    EXPECT_EQ(result->numbers, c.numbers) << c.text;
  }
}

TEST(Expression, refuses_everything_else) {
  for (const std::string text : {"",
                                 " ",
                                 "+",
                                 "1+",
                                 "+1",
                                 "-1",
                                 "1 2",
                                 "(1",
                                 "1)",
                                 "()",
                                 "1//2",
                                 "1**2",
                                 "2x",
                                 "1.5",
                                 "1/0",
                                 "1/(2-2)",
                                 "99999999999999999999",
                                 "9000000000000000000+9000000000000000000",
                                 "9000000000000000000*9",
                                 "(0-4611686018427387904)*2",
                                 "1=1",
                                 "1\t+1"}) {
    EXPECT_FALSE(evaluate_expression(text).has_value()) << text;
  }
  EXPECT_FALSE(evaluate_expression(std::string("1\0", 2)).has_value());
}

TEST(Expression, nesting_is_bounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '(') + "1" + std::string(depth, ')'); };
  EXPECT_TRUE(evaluate_expression(nested(64)).has_value());
  EXPECT_FALSE(evaluate_expression(nested(65)).has_value());
  EXPECT_FALSE(evaluate_expression(nested(1000000)).has_value());
}

TEST(Expression, hostile_text_never_crashes) {
  constexpr std::string_view kSymbols = "0123456789+-*/() ";
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 24; ++i) text += kSymbols[random_word(seed, i) % kSymbols.size()];
    if (const auto result = evaluate_expression(text)) {
      EXPECT_GT(result->value.denominator, 0) << text;
      EXPECT_FALSE(result->numbers.empty()) << text;
    }
  }
}

}  // namespace
}  // namespace minite::tasks
