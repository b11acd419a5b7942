#pragma once
// Generators of verifiable problems: rows of one table. Problem `index` depends on (generator, options, seed,
// index) alone. The seed decides a shuffled order of all problems that the options allow, so indices never
// repeat a problem, and disjoint index ranges of one seed are disjoint sets: train on [0, n), hold out
// [n, n + m). (Two seeds are two orders of the same problems and do overlap.)
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tasks/options.h"
#include "tasks/problem.h"
#include "tasks/spaces.h"

namespace minite::tasks {

struct Generator {
  std::string_view name;
  std::string_view description;
  std::string_view example;   ///< prompt and worked response of one default problem
  std::string_view check;     ///< the checker of its problems
  std::string_view alphabet;  ///< every character its prompts and responses may hold
  std::span<const OptionRow> options;
  std::unique_ptr<ProblemSpace> (*make)(const TaskOptions& options);
};

/// The table: addition, chain_sum, sort, countdown.
[[nodiscard]] std::span<const Generator> generators();

/// The row called `name`. Error (not_found) lists the names and offers the nearest.
[[nodiscard]] const Generator& generator(std::string_view name);

/// A seeded order of all problems of a generator. at() is const and may be called from many threads.
class ProblemSource {
 public:
  /// `options` as "digits=3,steps=1" (tasks/options.h). Errors as generator() and TaskOptions::parse().
  ProblemSource(std::string_view generator, std::string_view options, uint64_t seed);

  /// How many different problems there are.
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] const TaskOptions& options() const { return options_; }

  /// Problem `index` < size(). Strata (say, numbers of digits) take turns: indices 0, 1, 2, ... visit each in
  /// turn while it lasts, so a small stratum is used up first and a prefix is a balanced mixture.
  [[nodiscard]] Problem at(uint64_t index) const;

  /// Problems [offset, offset + count). Error (invalid_argument) with the numbers when there are not so many.
  [[nodiscard]] std::vector<Problem> take(uint64_t count, uint64_t offset = 0) const;

 private:
  /// A stretch of indices in which the same strata take turns.
  struct Phase {
    uint64_t start = 0;       // first index
    uint64_t first_rank = 0;  // how far each of these strata has come before
    std::vector<uint32_t> strata;
  };

  const Generator* generator_;
  TaskOptions options_;
  std::unique_ptr<const ProblemSpace> space_;
  uint64_t seed_;
  uint64_t size_ = 0;
  std::vector<uint64_t> strata_;  // sizes
  std::vector<Phase> phases_;
};

}  // namespace minite::tasks
