#include "tasks/generators.h"

#include <algorithm>
#include <array>
#include <set>

#include "support.h"
#include "tasks/checker.h"

namespace minite::tasks {
namespace {

struct Setting {
  std::string generator;
  std::string options;
};

/// Defaults, the extremes of every option, and mixtures.
const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"addition", ""},
      {"addition", "digits=1"},
      {"addition", "digits=6,min_digits=1,mixed=1"},
      {"addition", "digits=4,min_digits=2,steps=2"},
      {"addition", "digits=6,steps=2"},
      {"addition", "digits=2,steps=0"},
      {"chain_sum", ""},
      {"chain_sum", "terms=2"},
      {"chain_sum", "terms=8,digits=2"},
      {"chain_sum", "terms=8,digits=2,negative=1"},
      {"chain_sum", "terms=5,min_terms=2,negative=1"},
      {"chain_sum", "steps=0"},
      {"sort", ""},
      {"sort", "length=10,letters=1"},
      {"sort", "length=6,min_length=1"},
      {"sort", "length=2,steps=0"},
      {"countdown", ""},
      {"countdown", "numbers=2,highest=20,target=999"},
      {"countdown", "numbers=4,highest=6,target=99,divide=1"},
      {"countdown", "numbers=4,highest=20,target=999,divide=1"},
      {"countdown", "multiply=0,steps=0,target=10,highest=2"},
  };
  return all;
}

ProblemSource source_of(const Setting& setting, uint64_t seed = 1) {
  return ProblemSource(setting.generator, setting.options, seed);
}

std::vector<Problem> some(const Setting& setting, uint64_t most = 400) {
  const auto source = source_of(setting);
  return source.take(std::min(most, source.size()));
}

std::vector<int64_t> integers(std::string_view text) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < text.size();) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    int64_t value = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i) {
      value = value * 10 + (text[i] - '0');
    }
    out.push_back(value);
  }
  return out;
}

TEST(Generators, worked_responses_are_accepted_and_short) {
  for (const auto& setting : settings()) {
    const Generator& row = generator(setting.generator);
    for (const auto& problem : some(setting)) {
      EXPECT_EQ(problem.check, row.check);
      EXPECT_EQ(checker(problem.check).fault(problem.answer), "");
      EXPECT_EQ(reward(problem, sft_target(problem)), 1.0) << problem.prompt << " " << sft_target(problem);
      EXPECT_EQ(reward(problem, problem.answer), 1.0) << problem.prompt;
      EXPECT_EQ(reward(problem, ""), 0.0);
      EXPECT_EQ(reward(problem, problem.prompt), 0.0) << problem.prompt;
      EXPECT_LE(problem.prompt.size(), 24u) << problem.prompt;
      EXPECT_LE(sft_target(problem).size(), 64u) << sft_target(problem);
      const std::string text = problem.prompt + std::string(sft_target(problem)) + problem.answer;
      EXPECT_EQ(text.find_first_not_of(row.alphabet), std::string::npos) << text;
    }
  }
}

TEST(Generators, wrong_answers_get_no_reward) {
  for (const auto& setting : settings()) {
    const auto problems = some(setting, 60);
    for (size_t i = 0; i + 1 < problems.size(); ++i) {
      if (problems[i].answer == problems[i + 1].answer) continue;
      const bool expression = problems[i].check == "expression";
      if (expression) continue;  // another problem's expression may be right here; its own test is below
      EXPECT_EQ(reward(problems[i], sft_target(problems[i + 1])), 0.0) << problems[i].prompt;
    }
  }
}

TEST(Generators, no_two_problems_are_the_same) {
  for (const auto& setting : settings()) {
    std::set<std::string> prompts;
    const auto problems = some(setting, 3000);
    for (const auto& problem : problems) prompts.insert(problem.prompt);
    EXPECT_EQ(prompts.size(), problems.size()) << setting.generator << " " << setting.options;
  }
}

TEST(Generators, seed_and_index_decide) {
  for (const auto& setting : settings()) {
    const auto first = source_of(setting, 7);
    const uint64_t count = std::min<uint64_t>(50, first.size());
    const auto problems = first.take(count);
    EXPECT_EQ(source_of(setting, 7).take(count), problems);
    EXPECT_EQ(first.at(count - 1), problems.back());
    if (first.size() > 50) {
      EXPECT_NE(source_of(setting, 8).take(count), problems);
      EXPECT_EQ(first.take(10, 40).front(), problems[40]);
    }
  }
}

// The worked examples in the table are what the generators write.
TEST(Generators, examples_are_real) {
  for (const auto& row : generators()) {
    const char* options = row.name == "addition" ? "digits=2" : row.name == "sort" ? "length=4" : "";
    const ProblemSource source(row.name, options, 0);
    bool found = false;
    for (uint64_t i = 0; i < source.size() && !found; ++i) {
      const Problem problem = source.at(i);
      found = problem.prompt + std::string(sft_target(problem)) == row.example;
    }
    EXPECT_TRUE(found) << row.example;
  }
}

TEST(Generators, too_many_problems_are_refused_with_numbers) {
  const ProblemSource source("addition", "digits=1", 0);
  EXPECT_EQ(source.size(), 100u);
  EXPECT_EQ(source.take(100).size(), 100u);
  EXPECT_EQ(source.take(0, 100).size(), 0u);
  const auto refuse = [&](uint64_t count, uint64_t offset) {
    expect_error(ErrorCode::invalid_argument, {"addition", "only 100 exist", "digits=1"},
                 [&] { (void)source.take(count, offset); });
  };
  refuse(101, 0);
  refuse(1, 100);
  refuse(UINT64_MAX, 1);
  refuse(1, UINT64_MAX);
  expect_error(ErrorCode::invalid_argument, {"problem 100"}, [&] { (void)source.at(100); });
}

TEST(Generators, names_and_options_are_checked) {
  expect_error(ErrorCode::not_found, {"'adition'", "did you mean 'addition'"},
               [] { (void)ProblemSource("adition", "", 0); });
  const auto refuse = [](const char* name, const char* options, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::invalid_argument, parts, [&] { (void)ProblemSource(name, options, 0); });
  };
  refuse("addition", "digits=2,min_digits=3", {"min_digits=3", "digits=2"});
  refuse("chain_sum", "terms=3,min_terms=4", {"min_terms=4"});
  refuse("chain_sum", "min_terms=1", {"min_terms"});
  refuse("sort", "length=3,min_length=4", {"min_length=4"});
  refuse("sort", "digits=3", {"unknown option 'digits'"});
}

// Train and held-out sets of one seed share nothing, and together they are everything.
TEST(Generators, offsets_split_the_space) {
  for (const Setting& setting :
       {Setting{"addition", "digits=2,min_digits=1"}, Setting{"chain_sum", "terms=3"},
        Setting{"sort", "length=3,min_length=1"}, Setting{"countdown", ""}}) {
    const auto source = source_of(setting);
    const uint64_t half = source.size() / 2;
    std::set<std::string> train, held_out;
    for (const auto& problem : source.take(half)) train.insert(problem.prompt);
    for (const auto& problem : source.take(source.size() - half, half)) {
      EXPECT_FALSE(train.contains(problem.prompt)) << problem.prompt;
      held_out.insert(problem.prompt);
    }
    EXPECT_EQ(train.size() + held_out.size(), source.size()) << setting.generator;
  }
}

TEST(Generators, strata_take_turns_until_they_run_out) {
  const ProblemSource source("addition", "digits=3,min_digits=1", 0);
  EXPECT_EQ(source.size(), 100u + 8100u + 810000u);
  const auto length = [&](uint64_t index) { return source.at(index).prompt.size(); };  // 2 * digits + 2
  for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(length(i), 2 * (i % 3 + 1) + 2) << i;
  for (uint64_t i = 300; i < 600; ++i) EXPECT_EQ(length(i), 2 * (i % 2 + 2) + 2) << i;
  EXPECT_EQ(length(source.size() - 1), 8u);
}

// ---- answers, verified without the code that made them

TEST(Addition, columns_and_sums) {
  for (const char* options : {"digits=6,min_digits=1,mixed=1", "digits=3", "digits=4,steps=2"}) {
    const bool full = ProblemSource("addition", options, 0).options().get("steps") == 1;
    for (const auto& problem : some({"addition", options})) {
      const auto terms = integers(problem.prompt);
      ASSERT_EQ(terms.size(), 2u);
      EXPECT_EQ(problem.answer, std::to_string(terms[0] + terms[1]));
      const auto written = integers(problem.response->substr(0, problem.response->find('#')));
      const size_t width = full ? 4 : 1;  // numbers in a column
      int64_t scale = 1, carry = 0, rebuilt = 0;
      for (size_t i = 0; i + width <= written.size(); i += width, scale *= 10) {
        const int64_t a = terms[0] / scale % 10, b = terms[1] / scale % 10;
        if (full) {
          EXPECT_EQ(written[i], a);
          EXPECT_EQ(written[i + 1], b);
          EXPECT_EQ(written[i + 2], carry);
        }
        EXPECT_EQ(written[i + width - 1], a + b + carry) << *problem.response;
        carry = (a + b + carry) / 10;
        rebuilt += written[i + width - 1] % 10 * scale;
      }
      EXPECT_EQ(rebuilt + carry * scale, terms[0] + terms[1]) << *problem.response;
    }
  }
}

TEST(ChainSum, running_totals) {
  for (const char* options : {"", "terms=8,digits=2", "terms=6,min_terms=2,negative=1"}) {
    const bool negative = ProblemSource("chain_sum", options, 0).options().get("negative") == 1;
    for (const auto& problem : some({"chain_sum", options})) {
      const auto terms = integers(problem.prompt);
      std::string operators = "+";
      for (const char c : problem.prompt) operators += c == '+' || c == '-' ? std::string(1, c) : "";
      std::string expected;
      int64_t total = terms[0];
      for (size_t i = 1; i < terms.size(); ++i) {
        total += operators[i] == '-' ? -terms[i] : terms[i];
        EXPECT_TRUE(negative || total >= 0) << problem.prompt;
        expected += i + 1 == terms.size() ? "#" : i == 1 ? "" : ",";
        expected += std::to_string(total);
      }
      EXPECT_EQ(problem.answer, std::to_string(total)) << problem.prompt;
      EXPECT_EQ(*problem.response, expected) << problem.prompt;
    }
  }
}

TEST(ChainSum, the_space_is_counted_right) {
  uint64_t all = 0, above = 0;
  for (int a = 1; a <= 9; ++a) {
    for (int b = -9; b <= 9; ++b) {
      for (int c = -9; c <= 9; ++c) {
        if (b == 0 || c == 0) continue;
        ++all;
        above += a + b >= 0 && a + b + c >= 0;
      }
    }
  }
  EXPECT_EQ(ProblemSource("chain_sum", "terms=3,negative=1", 0).size(), all);
  EXPECT_EQ(ProblemSource("chain_sum", "terms=3", 0).size(), above);
}

TEST(Sort, answers_are_ordered_permutations) {
  for (const char* options : {"", "length=10,letters=1", "length=5,min_length=1"}) {
    for (const auto& problem : some({"sort", options})) {
      std::array<int, 256> count{};
      for (const char c : problem.prompt.substr(0, problem.prompt.size() - 1))
        ++count[static_cast<size_t>(c)];
      std::string expected;
      for (size_t c = 0; c < count.size(); ++c)
        expected += std::string(static_cast<size_t>(count[c]), char(c));
      EXPECT_EQ(problem.answer, expected) << problem.prompt;
      EXPECT_TRUE(problem.response->ends_with(std::string("#").append(expected)));
    }
  }
}

/// Targets in [1, most] that permutations of `numbers` reach with the operators of `symbols`, found by
/// combining any two values until one is left.
void reach(std::vector<int64_t> values, std::string_view symbols, int64_t most, std::set<int64_t>& targets) {
  if (values.size() == 1) {
    if (values[0] <= most) targets.insert(values[0]);
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < values.size(); ++j) {
      if (i == j) continue;
      for (const char op : symbols) {
        const int64_t x = values[i], y = values[j];
        if (op == '/' && x % y != 0) continue;
        const int64_t result = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : x / y;
        if (result < 1) continue;
        std::vector<int64_t> rest = {result};
        for (size_t k = 0; k < values.size(); ++k) {
          if (k != i && k != j) rest.push_back(values[k]);
        }
        reach(rest, symbols, most, targets);
      }
    }
  }
}

TEST(Countdown, every_problem_is_solvable_and_none_is_missing) {
  for (const std::string options : {"numbers=3,highest=6,divide=1", "numbers=3,highest=5,multiply=0"}) {
    const std::string symbols = options.find("divide") == options.npos ? "+-" : "+-*/";
    const ProblemSource source("countdown", options, 0);
    const int64_t highest = source.options().get("highest");
    std::set<std::string> expected;
    for (int64_t a = 1; a <= highest; ++a) {
      for (int64_t b = a; b <= highest; ++b) {
        for (int64_t c = b; c <= highest; ++c) {
          std::set<int64_t> targets;
          reach({a, b, c}, symbols, 99, targets);
          for (const int64_t target : targets) {
            expected.insert(std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(c) + ">" +
                            std::to_string(target) + "=");
          }
        }
      }
    }
    std::set<std::string> made;
    for (const auto& problem : source.take(source.size())) made.insert(problem.prompt);
    EXPECT_EQ(made, expected) << options;
  }
}

/// Replays "9-2=7,7*3=21": each line must be right and use numbers that are there; returns what is left.
std::multiset<int64_t> replay(std::multiset<int64_t> numbers, const std::string& steps) {
  std::istringstream lines(steps);
  for (std::string line; std::getline(lines, line, ',');) {
    const auto values = integers(line);
    const char op = line[line.find_first_of("+-*/")];
    const int64_t x = values.at(0), y = values.at(1);
    const int64_t result = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : x / y;
    EXPECT_EQ(result, values.at(2)) << line;
    EXPECT_TRUE(op != '/' || x % y == 0) << line;
    for (const int64_t used : {x, y}) {
      const auto at = numbers.find(used);
      EXPECT_NE(at, numbers.end()) << steps;
      if (at != numbers.end()) numbers.erase(at);
    }
    numbers.insert(result);
  }
  return numbers;
}

TEST(Countdown, steps_lead_from_the_numbers_to_the_target) {
  for (const char* options : {"", "numbers=4,highest=20,target=999,divide=1", "numbers=2"}) {
    for (const auto& problem : some({"countdown", options})) {
      auto numbers = integers(problem.prompt);
      const int64_t target = numbers.back();
      numbers.pop_back();
      const auto steps = problem.response->substr(0, problem.response->find('#'));
      EXPECT_EQ(replay({numbers.begin(), numbers.end()}, steps), std::multiset<int64_t>{target})
          << problem.prompt << *problem.response;
    }
  }
}

}  // namespace
}  // namespace minite::tasks
