#include "tasks/checker.h"

#include "support.h"

namespace minite::tasks {
namespace {

TEST(FinalAnswer, is_what_follows_the_last_marker) {
  EXPECT_EQ(final_answer("42"), "42");
  EXPECT_EQ(final_answer("  42\n"), "42");
  EXPECT_EQ(final_answer("1+1=2"), "2");
  EXPECT_EQ(final_answer("1+1=2#3"), "3");
  EXPECT_EQ(final_answer("#### 72 "), "72");
  EXPECT_EQ(final_answer("5="), "");
  EXPECT_EQ(final_answer("#"), "");
  EXPECT_EQ(final_answer(""), "");
  EXPECT_EQ(final_answer("so #x=5", 1), "x=5");
  EXPECT_EQ(final_answer("x=5", 1), "x=5");
}

struct Case {
  const char* check;
  const char* answer;
  const char* response;
  double reward;
};

TEST(Checker, rewards) {
  const Case cases[] = {
      {"exact", "abc", "abc", 1},
      {"exact", "abc", "ba,bac#abc\n", 1},
      {"exact", " abc ", "abc", 1},
      {"exact", "abc", "abc#", 0},
      {"exact", "abc", "abcd", 0},
      {"exact", "abc", "xabc", 0},
      {"exact", "abc", "ABC", 0},
      {"exact", "abc", "abc#abd", 0},
      {"exact", "abc", "", 0},
      {"exact", "x=5", "thus#x=5", 1},
      {"exact", "x=5", "x=5", 1},
      {"exact", "x=5", "y=5", 0},
      {"numeric", "132", "7+5+0=12,4+8+1=13#132", 1},
      {"numeric", "132", "132", 1},
      {"numeric", "132", "the answer is 132.", 1},
      {"numeric", "132", "132.0", 1},
      {"numeric", "1234", "#1,234", 1},
      {"numeric", "1,234", "1234", 1},
      {"numeric", "-5", "2-7=-5", 1},
      {"numeric", "-5", "5", 0},
      {"numeric", "5", "10-5", 1},
      {"numeric", "0.5", ".50", 1},
      {"numeric", "132", "132=", 0},
      {"numeric", "132", "#132#13", 0},
      {"numeric", "132", "1320", 0},
      {"numeric", "132", "", 0},
      {"numeric", "long text #### 72", "#72", 1},
      {"numeric", "$12", "12", 1},
      {"expression", "(9-2)*3", "9-2=7,7*3=21#(9-2)*3", 1},
      {"expression", "(9-2)*3", "3*(9-2)", 1},
      {"expression", "(9-2)*3", "# 9*3-3*2", 0},  // 21, but 3 twice
      {"expression", "(9-2)*3", "21", 0},         // the value is not an expression of the numbers
      {"expression", "(9-2)*3", "9*2+3", 1},      // another way to 21
      {"expression", "(9-2)*3", "9-2*3", 0},
      {"expression", "(9-2)*3", "(9-2)*3=21", 0},  // what follows the last marker is 21
      {"expression", "(9-2)*3", "(9-2", 0},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(reward({"?", c.answer, std::nullopt, c.check}, c.response), c.reward)
        << c.check << " " << c.answer << " <- " << c.response;
  }
}

TEST(Checker, answers_that_nothing_can_match_are_faulted) {
  EXPECT_EQ(checker("exact").fault("abc"), "");
  EXPECT_NE(checker("exact").fault(" \n"), "");
  for (const char* good : {"42", "-1,234.5", "0.5", "$12", "50%", "42.", "steps #### 72"}) {
    EXPECT_EQ(checker("numeric").fault(good), "") << good;
  }
  for (const char* bad : {"", "abc", "12 apples", "1e5", "1 2", "5=", "-"}) {
    EXPECT_NE(checker("numeric").fault(bad), "") << bad;
  }
  EXPECT_EQ(checker("expression").fault("(9-2)*3"), "");
  for (const char* bad : {"", "abc", "9-2=7", "1/0"}) EXPECT_NE(checker("expression").fault(bad), "") << bad;
}

TEST(Checker, unknown_names_get_an_offer) {
  expect_error(ErrorCode::not_found, {"'numerik'", "exact, numeric, expression", "did you mean 'numeric'"},
               [] { (void)checker("numerik"); });
}

TEST(Checker, arbitrary_bytes_are_judged_without_a_crash) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string response = random_bytes(seed, seed % 70);
    for (const auto& row : checkers()) EXPECT_FALSE(row.accepts("(123456789-2)*31337", response));
  }
  const std::string long_text(1 << 20, '=');
  for (const auto& row : checkers()) EXPECT_FALSE(row.accepts("1", long_text));
}

}  // namespace
}  // namespace minite::tasks
