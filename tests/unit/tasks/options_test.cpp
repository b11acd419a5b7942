#include "tasks/options.h"

#include <array>

#include "support.h"

namespace minite::tasks {
namespace {

constexpr std::array kRows = {
    OptionRow{"digits", 3, 1, 6, ""},
    OptionRow{"terms", 4, 2, 8, ""},
    OptionRow{"floor", -1, -5, 5, ""},
};

TaskOptions parse(std::string_view text) { return TaskOptions::parse("demo", kRows, text); }

TEST(TaskOptions, defaults_and_values) {
  EXPECT_EQ(parse("").to_string(), "digits=3,terms=4,floor=-1");
  EXPECT_EQ(parse(" terms = 5 , digits=2 ,").to_string(), "digits=2,terms=5,floor=-1");
  EXPECT_EQ(parse("floor=-5").get("floor"), -5);
  EXPECT_EQ(parse(parse("digits=6").to_string()).to_string(), parse("digits=6").to_string());
}

TEST(TaskOptions, errors_name_the_option) {
  const auto refuse = [](std::string_view text, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::invalid_argument, parts, [&] { (void)parse(text); });
  };
  refuse("digit=3", {"demo", "'digit'", "digits, terms, floor", "did you mean 'digits'"});
  refuse("digits", {"'digits'", "name=value"});
  refuse("digits=", {"digits=''", "from 1 to 6"});
  refuse("digits=7", {"digits='7'", "from 1 to 6"});
  refuse("digits=3.5", {"digits='3.5'"});
  refuse("digits=0x3", {"digits='0x3'"});
  refuse("digits=99999999999999999999", {"from 1 to 6"});
  refuse("digits=2,digits=3", {"'digits' is set twice"});
  refuse("=3", {"unknown option ''"});
  refuse("digits=2,,terms=4", {"name=value"});
}

}  // namespace
}  // namespace minite::tasks
