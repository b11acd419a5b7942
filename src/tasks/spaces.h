#pragma once
// The finite spaces behind the generators. A space numbers its problems, so that "make n different ones" is
// "visit n numbers in a shuffled order" (tasks/generators.h), with no table of what was made before.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tasks/options.h"
#include "tasks/problem.h"

namespace minite::tasks {

/// All problems of one generator with given options, in strata of like difficulty.
class ProblemSpace {
 public:
  virtual ~ProblemSpace() = default;
  /// Problems in each stratum: at least one stratum, each at least 1 and all together at most 2^62.
  [[nodiscard]] virtual std::vector<uint64_t> strata() const = 0;
  /// Problem `rank` < strata()[stratum]; different ranks have different prompts.
  [[nodiscard]] virtual Problem make(size_t stratum, uint64_t rank) const = 0;
};

inline constexpr std::array kAdditionOptions = {
    OptionRow{"digits", 3, 1, 6, "digits of the longest number"},
    OptionRow{"min_digits", 0, 0, 6, "digits of the shortest number; 0: as digits"},
    OptionRow{"mixed", 0, 0, 1, "1: the two numbers may differ in length"},
    OptionRow{"steps", 1, 0, 2, "response: 1 columns as 7+5+0=12, 2 only their sums as 12, 0 none"},
    OptionRow{"slips", 0, 0, 100,
              "percent of carries that the worked response forgets, as a careless teacher"},
};
inline constexpr std::array kChainSumOptions = {
    OptionRow{"terms", 4, 2, 8, "most terms"},
    OptionRow{"min_terms", 0, 0, 8, "fewest terms; 0: as terms"},
    OptionRow{"digits", 1, 1, 2, "digits of the largest term"},
    OptionRow{"negative", 0, 0, 1, "1: totals may fall below 0"},
    OptionRow{"steps", 1, 0, 1, "response: 1 running totals, 0 none"},
};
inline constexpr std::array kSortOptions = {
    OptionRow{"length", 6, 2, 10, "most characters"},
    OptionRow{"min_length", 0, 0, 10, "fewest characters; 0: as length"},
    OptionRow{"letters", 0, 0, 1, "0: digits, 1: letters a to z"},
    OptionRow{"steps", 1, 0, 1, "response: 1 insertion passes, 0 none"},
};
inline constexpr std::array kCountdownOptions = {
    OptionRow{"numbers", 3, 2, 4, "how many numbers are given"},
    OptionRow{"highest", 9, 2, 20, "largest of them"},
    OptionRow{"target", 99, 10, 999, "largest target"},
    OptionRow{"multiply", 1, 0, 1, "1: a solution may need *"},
    OptionRow{"divide", 0, 0, 1, "1: a solution may need /"},
    OptionRow{"steps", 1, 0, 1, "response: 1 intermediate results, 0 none"},
};

/// a+b with both numbers of the same length, a stratum for each length (each pair of lengths when mixed).
std::unique_ptr<ProblemSpace> addition_space(const TaskOptions& options);
/// a+b-c... of terms 1 to 10^digits - 1, a stratum for each number of terms.
std::unique_ptr<ProblemSpace> chain_sum_space(const TaskOptions& options);
/// Strings of digits or letters, repeats allowed, a stratum for each length.
std::unique_ptr<ProblemSpace> sort_space(const TaskOptions& options);
/// Pairs of a multiset of numbers and a target that uses each of them once; one stratum.
std::unique_ptr<ProblemSpace> countdown_space(const TaskOptions& options);

}  // namespace minite::tasks
