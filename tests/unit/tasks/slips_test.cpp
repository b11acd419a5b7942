// Addition with slips=S: worked responses that forget S percent of the carries.
#include <algorithm>

#include "support.h"
#include "tasks/checker.h"
#include "tasks/generators.h"

namespace minite::tasks {
namespace {

std::vector<Problem> take(const std::string& options, uint64_t count = 2000) {
  return ProblemSource("addition", options, 3).take(count);
}

uint64_t number(std::string_view text) { return std::stoull(std::string(text)); }

struct Terms {
  uint64_t a, b;
};
Terms terms(const Problem& problem) {
  const size_t plus = problem.prompt.find('+');
  return {number(problem.prompt.substr(0, plus)), number(problem.prompt.substr(plus + 1))};
}
/// What the worked response ends in.
uint64_t claimed(const Problem& problem) {
  return number(problem.response->substr(problem.response->find('#') + 1));
}

/// The sum when no carry ever arrives; the topmost column still shows its own.
uint64_t sum_without_carries(Terms t, int columns) {
  uint64_t total = 0, scale = 1;
  for (int i = 0; i < columns; ++i, t.a /= 10, t.b /= 10, scale *= 10) {
    const uint64_t column = t.a % 10 + t.b % 10;
    total += (i + 1 == columns ? column : column % 10) * scale;
  }
  return total;
}

/// Carries into a column that the response shows.
int carries(Terms t, int columns) {
  int count = 0;
  for (uint64_t carry = 0; columns > 0; --columns, t.a /= 10, t.b /= 10) {
    carry = (t.a % 10 + t.b % 10 + carry) / 10;
    count += carry != 0 && columns > 1;
  }
  return count;
}

TEST(Slips, NoneIsTheDefaultAndChangesNothing) {
  EXPECT_EQ(take("digits=3"), take("digits=3,slips=0"));
  for (const Problem& p : take("digits=4,slips=0")) EXPECT_EQ(reward(p, *p.response), 1.0) << *p.response;
}

TEST(Slips, AllForgetsEveryCarry) {
  for (const Problem& p : take("digits=3,slips=100")) {
    EXPECT_EQ(claimed(p), sum_without_carries(terms(p), 3)) << p.prompt << *p.response;
    EXPECT_EQ(reward(p, *p.response) > 0, carries(terms(p), 3) == 0) << p.prompt << *p.response;
    EXPECT_EQ(p.response->find("+1="), std::string::npos) << *p.response;
  }
  const Problem known = [] {
    const ProblemSource source("addition", "digits=2,slips=100", 0);
    for (uint64_t i = 0;; ++i) {
      if (source.at(i).prompt == "47+85=") return source.at(i);
    }
  }();
  EXPECT_EQ(*known.response, "7+5+0=12,4+8+0=12#122");
  EXPECT_EQ(known.answer, "132");
}

TEST(Slips, TheAnswerIsAlwaysRight) {
  for (const char* slips : {"0", "1", "37", "100"}) {
    for (const Problem& p : take(std::string("digits=6,min_digits=1,mixed=1,slips=") + slips, 500)) {
      EXPECT_EQ(number(p.answer), terms(p).a + terms(p).b);
      EXPECT_EQ(reward(p, p.answer), 1.0);
    }
  }
}

TEST(Slips, TheShareOfForgottenCarriesIsWhatWasAsked) {
  // With one carry at most, a response is wrong when exactly that carry is forgotten.
  for (const int slips : {10, 50, 90}) {
    int right = 0, wrong = 0;
    for (const Problem& p : take("digits=2,slips=" + std::to_string(slips), 8000)) {
      if (carries(terms(p), 2) == 0) {
        EXPECT_EQ(reward(p, *p.response), 1.0) << p.prompt << *p.response;
      } else {
        (reward(p, *p.response) > 0 ? right : wrong) += 1;
      }
    }
    const double n = right + wrong;
    EXPECT_GT(n, 3000);
    EXPECT_NEAR(wrong / n, slips / 100.0, 0.03) << slips;  // five standard deviations
  }
}

TEST(Slips, MoreSlipsForgetTheSameCarriesAndMore) {
  const auto few = take("digits=2,slips=20"), many = take("digits=2,slips=60");
  for (size_t i = 0; i < few.size(); ++i) {
    ASSERT_EQ(few[i].prompt, many[i].prompt);
    if (reward(few[i], *few[i].response) == 0) {
      EXPECT_EQ(reward(many[i], *many[i].response), 0.0) << few[i].prompt;
    }
  }
}

TEST(Slips, DependOnTheProblemAlone) {
  const ProblemSource one("addition", "digits=2,slips=50", 1), other("addition", "digits=2,slips=50", 2);
  auto a = one.take(one.size()), b = other.take(other.size());
  const auto by_prompt = [](const Problem& x, const Problem& y) { return x.prompt < y.prompt; };
  std::sort(a.begin(), a.end(), by_prompt);
  std::sort(b.begin(), b.end(), by_prompt);
  EXPECT_EQ(a, b);
  EXPECT_EQ(take("digits=5,slips=50"), take("digits=5,slips=50"));
}

}  // namespace
}  // namespace minite::tasks
