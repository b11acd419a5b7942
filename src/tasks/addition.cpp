// addition: "47+85=" -> "7+5+0=12,4+8+1=13#132". Columns from the right; each has a digit of both numbers,
// the carry in, and its sum always in two digits (carry out, digit), so that every step looks the same.
//
// With slips=S the worked response forgets S percent of the carries and ends in the wrong sum: imperfect
// demonstrations, which a verifier can tell from good ones. The answer is always right.
#include <algorithm>

#include "core/fail.h"
#include "core/philox.h"
#include "tasks/spaces.h"

namespace minite::tasks {
namespace {

uint64_t power_of_ten(int64_t exponent) {
  uint64_t value = 1;
  for (; exponent > 0; --exponent) value *= 10;
  return value;
}

/// Smallest number of `digits` digits; 0 counts as one digit.
uint64_t smallest(int64_t digits) { return digits == 1 ? 0 : power_of_ten(digits - 1); }
uint64_t how_many(int64_t digits) { return power_of_ten(digits) - smallest(digits); }

class AdditionSpace : public ProblemSpace {
 public:
  explicit AdditionSpace(const TaskOptions& options)
      : steps_(options.get("steps")), slips_(options.get("slips")) {
    const int64_t most = options.get("digits");
    const int64_t least = options.get("min_digits") == 0 ? most : options.get("min_digits");
    const bool mixed = options.get("mixed") == 1;
    for (int64_t a = least; a <= most; ++a) {
      for (int64_t b = mixed ? least : a; b <= (mixed ? most : a); ++b) lengths_.push_back({a, b});
    }
  }

  std::vector<uint64_t> strata() const override {
    std::vector<uint64_t> sizes;
    for (const auto& [a, b] : lengths_) sizes.push_back(how_many(a) * how_many(b));
    return sizes;
  }

  Problem make(size_t stratum, uint64_t rank) const override {
    const auto [digits_a, digits_b] = lengths_[stratum];
    const uint64_t a = smallest(digits_a) + rank / how_many(digits_b);
    const uint64_t b = smallest(digits_b) + rank % how_many(digits_b);
    Problem problem;
    problem.prompt = fmt::format("{}+{}=", a, b);
    problem.answer = fmt::format("{}", a + b);
    problem.check = "numeric";
    if (steps_ != 0) {
      problem.response = worked(a, b, std::max(digits_a, digits_b));
    }
    return problem;
  }

 private:
  /// Whether the teacher forgets the carry into `column`; depends on the problem alone.
  [[nodiscard]] bool forgets(uint64_t a, uint64_t b, int64_t column) const {
    constexpr uint64_t kKey = 0x736C697073;  // "slips"
    const auto word = Philox::generate(kKey, a, b << 8 | static_cast<uint64_t>(column))[0];
    return uint64_t{word} * 100 < static_cast<uint64_t>(slips_) << 32;
  }

  [[nodiscard]] std::string worked(uint64_t a, uint64_t b, int64_t count) const {
    std::string text;
    uint64_t carry = 0, total = 0;
    const uint64_t whole_a = a, whole_b = b;
    for (int64_t column = 0; column < count; ++column, a /= 10, b /= 10) {
      if (carry != 0 && forgets(whole_a, whole_b, column)) carry = 0;
      const uint64_t sum = a % 10 + b % 10 + carry;
      if (column > 0) text += ',';
      if (steps_ == 1) text += fmt::format("{}+{}+{}=", a % 10, b % 10, carry);
      text += fmt::format("{:02}", sum);
      carry = sum / 10;
      total += sum % 10 * power_of_ten(column);
    }
    return fmt::format("{}#{}", text, total + carry * power_of_ten(count));
  }

  int64_t steps_, slips_;
  std::vector<std::pair<int64_t, int64_t>> lengths_;  // digits of a and b, one pair a stratum
};

}  // namespace

std::unique_ptr<ProblemSpace> addition_space(const TaskOptions& options) {
  require_ordered("addition", options, "min_digits", "digits");
  return std::make_unique<AdditionSpace>(options);
}

}  // namespace minite::tasks
