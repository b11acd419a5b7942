// chain_sum: "4+7-2+5=" -> "11,9#14": the running totals, the last one after the marker.
#include "core/fail.h"
#include "tasks/spaces.h"

namespace minite::tasks {
namespace {

class ChainSumSpace : public ProblemSpace {
 public:
  explicit ChainSumSpace(const TaskOptions& options)
      : most_terms_(options.get("terms")),
        least_terms_(options.get("min_terms") == 0 ? most_terms_ : options.get("min_terms")),
        largest_(options.get("digits") == 1 ? 9 : 99),
        lowest_total_(options.get("negative") == 1 ? -largest_ * (most_terms_ - 1) : 0),
        highest_total_(largest_ * most_terms_),
        steps_(options.get("steps") == 1) {
    count_endings();
  }

  std::vector<uint64_t> strata() const override {
    std::vector<uint64_t> sizes;
    for (int64_t terms = least_terms_; terms <= most_terms_; ++terms) {
      uint64_t size = 0;
      for (int64_t first = 1; first <= largest_; ++first) size += endings(terms - 1, first);
      sizes.push_back(size);
    }
    return sizes;
  }

  Problem make(size_t stratum, uint64_t rank) const override {
    int64_t left = least_terms_ + static_cast<int64_t>(stratum) - 1;  // terms still to come
    const int64_t first = choose(rank, left, 0, 1);
    int64_t total = first;
    Problem problem;
    problem.prompt = fmt::format("{}", first);
    std::string totals;
    while (left > 0) {
      const int64_t term = choose(rank, --left, total, -largest_);
      total += term;
      problem.prompt += fmt::format("{:+}", term);
      if (left > 0) totals += fmt::format("{}{}", totals.empty() ? "" : ",", total);
    }
    problem.prompt += '=';
    problem.answer = fmt::format("{}", total);
    problem.check = "numeric";
    if (steps_) problem.response = totals + "#" + problem.answer;
    return problem;
  }

 private:
  /// In how many ways `left` more terms can follow when the total is `total`; 0 for a total out of range.
  uint64_t endings(int64_t left, int64_t total) const {
    if (total < lowest_total_ || total > highest_total_) return 0;
    return endings_[static_cast<size_t>(left)][static_cast<size_t>(total - lowest_total_)];
  }

  void count_endings() {
    const auto totals = static_cast<size_t>(highest_total_ - lowest_total_ + 1);
    endings_.assign(1, std::vector<uint64_t>(totals, 1));
    for (int64_t left = 1; left < most_terms_; ++left) {
      std::vector<uint64_t> row(totals, 0);
      // A total too high to occur with `left` terms to come would overflow the count and is never asked for.
      for (int64_t total = lowest_total_; total <= largest_ * (most_terms_ - left); ++total) {
        for (int64_t term = 1; term <= largest_; ++term) {
          row[static_cast<size_t>(total - lowest_total_)] +=
              endings(left - 1, total + term) + endings(left - 1, total - term);
        }
      }
      endings_.push_back(std::move(row));
    }
  }

  /// The term (from `lowest` up, never 0) whose endings contain `rank`, which becomes the rank among them.
  int64_t choose(uint64_t& rank, int64_t left, int64_t total, int64_t lowest) const {
    for (int64_t term = lowest; term <= largest_; ++term) {
      const uint64_t size = term == 0 ? 0 : endings(left, total + term);
      if (rank < size) return term;
      rank -= size;
    }
    fail(ErrorCode::internal, "chain_sum: rank is beyond the stratum by {}", rank);
  }

  int64_t most_terms_;
  int64_t least_terms_;
  int64_t largest_;
  int64_t lowest_total_;
  int64_t highest_total_;
  bool steps_;
  std::vector<std::vector<uint64_t>> endings_;  // [terms left][total - lowest_total_]
};

}  // namespace

std::unique_ptr<ProblemSpace> chain_sum_space(const TaskOptions& options) {
  require_ordered("chain_sum", options, "min_terms", "terms");
  require(options.get("min_terms") != 1, "chain_sum: option min_terms='1' must be 0 or from 2 to 8");
  return std::make_unique<ChainSumSpace>(options);
}

}  // namespace minite::tasks
