// sort: "4715>" -> "4,47,147#1457": insertion sort, one pass for each character.
#include <algorithm>

#include "core/fail.h"
#include "tasks/spaces.h"

namespace minite::tasks {
namespace {

class SortSpace : public ProblemSpace {
 public:
  explicit SortSpace(const TaskOptions& options)
      : most_(options.get("length")),
        least_(options.get("min_length") == 0 ? most_ : options.get("min_length")),
        symbols_(options.get("letters") == 1 ? "abcdefghijklmnopqrstuvwxyz" : "0123456789"),
        steps_(options.get("steps") == 1) {}

  std::vector<uint64_t> strata() const override {
    std::vector<uint64_t> sizes;
    uint64_t size = 1;
    for (int64_t length = 1; length <= most_; ++length) {
      size *= symbols_.size();
      if (length >= least_) sizes.push_back(size);
    }
    return sizes;
  }

  Problem make(size_t stratum, uint64_t rank) const override {
    const int64_t length = least_ + static_cast<int64_t>(stratum);
    std::string text;
    for (int64_t i = 0; i < length; ++i, rank /= symbols_.size()) text += symbols_[rank % symbols_.size()];
    Problem problem;
    problem.prompt = text + ">";
    std::string sorted, passes;
    for (const char c : text) {
      if (!sorted.empty()) passes += fmt::format("{}{}", passes.empty() ? "" : ",", sorted);
      sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), c), c);
    }
    problem.answer = sorted;
    if (steps_) problem.response = passes + "#" + sorted;
    return problem;
  }

 private:
  int64_t most_;
  int64_t least_;
  std::string_view symbols_;
  bool steps_;
};

}  // namespace

std::unique_ptr<ProblemSpace> sort_space(const TaskOptions& options) {
  require_ordered("sort", options, "min_length", "length");
  return std::make_unique<SortSpace>(options);
}

}  // namespace minite::tasks
