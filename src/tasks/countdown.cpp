// countdown: "2,3,9>21=" -> "9-2=7,7*3=21#(9-2)*3": reach the target with each number once. The answer is one
// expression that does; the checker accepts any other with the same numbers and value.
#include <algorithm>
#include <bit>
#include <span>

#include "core/fail.h"
#include "tasks/spaces.h"

namespace minite::tasks {
namespace {

constexpr int kLargestStep = 9999;  // intermediate results stay short enough to write down

/// A number (left < 0) or `left op right` of two nodes with larger value first.
struct Node {
  int value = 0;
  char op = 0;
  int left = -1;
  int right = -1;
};

/// Everything that uses each of 2 to 4 numbers exactly once, over positive whole intermediate results. For
/// each subset of the numbers, one node for each value that the subset can make.
class Solutions {
 public:
  Solutions(bool multiply, bool divide) : multiply_(multiply), divide_(divide), seen_(kLargestStep + 1, 0) {}

  /// Fills the nodes for `numbers`; `limit` bounds the values of the full set.
  void solve(std::span<const int> numbers, int limit) {
    nodes_.clear();
    const unsigned full = (1u << numbers.size()) - 1;
    by_subset_.assign(full + 1, {});
    for (unsigned subset = 1; subset <= full; ++subset) {
      ++round_;
      if ((subset & (subset - 1)) == 0) {
        add(subset, {numbers[static_cast<size_t>(std::countr_zero(subset))], 0, -1, -1}, kLargestStep);
      }
      for (unsigned part = (subset - 1) & subset; part > 0; part = (part - 1) & subset) {
        const unsigned rest = subset ^ part;
        if (part > rest) join(subset, part, rest, subset == full ? limit : kLargestStep);
      }
    }
  }

  /// Nodes of the full set, in the order found.
  const std::vector<int>& complete() const { return by_subset_.back(); }
  const Node& node(int index) const { return nodes_[static_cast<size_t>(index)]; }

  std::string expression(int index) const {
    const Node& n = node(index);
    if (n.left < 0) return fmt::format("{}", n.value);
    return operand(n.left) + n.op + operand(n.right);
  }

  /// "9-2=7,7*3=21": the operations of a node, innermost first.
  std::string steps(int index) const {
    const Node& n = node(index);
    std::string text;
    if (n.left < 0) return text;
    for (const int child : {n.left, n.right}) {
      const std::string inner = steps(child);
      if (!inner.empty()) text += inner + ",";
    }
    return text + fmt::format("{}{}{}={}", node(n.left).value, n.op, node(n.right).value, n.value);
  }

 private:
  std::string operand(int index) const {
    return node(index).left < 0 ? expression(index) : fmt::format("({})", expression(index));
  }

  void join(unsigned subset, unsigned part, unsigned rest, int limit) {
    for (const int a : by_subset_[part]) {
      for (const int b : by_subset_[rest]) {
        const bool swap = node(b).value > node(a).value;
        const int high = swap ? b : a, low = swap ? a : b;
        const int x = node(high).value, y = node(low).value;
        add(subset, {x + y, '+', high, low}, limit);
        add(subset, {x - y, '-', high, low}, limit);
        if (multiply_) add(subset, {x * y, '*', high, low}, limit);
        if (divide_ && x % y == 0) add(subset, {x / y, '/', high, low}, limit);
      }
    }
  }

  void add(unsigned subset, const Node& node, int limit) {
    if (node.value < 1 || node.value > limit || seen_[static_cast<size_t>(node.value)] == round_) return;
    seen_[static_cast<size_t>(node.value)] = round_;
    by_subset_[subset].push_back(static_cast<int>(nodes_.size()));
    nodes_.push_back(node);
  }

  bool multiply_;
  bool divide_;
  std::vector<Node> nodes_;
  std::vector<std::vector<int>> by_subset_;  // indices into nodes_, by bit mask of the numbers used
  std::vector<uint32_t> seen_;               // by value: the last round_ (subset) that made it
  uint32_t round_ = 0;
};

class CountdownSpace : public ProblemSpace {
 public:
  explicit CountdownSpace(const TaskOptions& options)
      : largest_target_(static_cast<int>(options.get("target"))),
        count_(static_cast<size_t>(options.get("numbers"))),
        multiply_(options.get("multiply") == 1),
        divide_(options.get("divide") == 1),
        steps_(options.get("steps") == 1) {
    Solutions solutions(multiply_, divide_);
    std::vector<int> numbers(count_, 1);
    do {
      sets_.insert(sets_.end(), numbers.begin(), numbers.end());
      starts_.push_back(targets_.size());
      solutions.solve(numbers, largest_target_);
      for (const int index : solutions.complete()) targets_.push_back(solutions.node(index).value);
      std::sort(targets_.begin() + static_cast<std::ptrdiff_t>(starts_.back()), targets_.end());
    } while (next_set(numbers, static_cast<int>(options.get("highest"))));
  }

  std::vector<uint64_t> strata() const override { return {targets_.size()}; }

  Problem make(size_t, uint64_t rank) const override {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), rank);
    const auto set = static_cast<size_t>(after - starts_.begin()) - 1;
    const std::span<const int> numbers(sets_.data() + set * count_, count_);
    const int target = targets_[rank];
    Solutions solutions(multiply_, divide_);
    solutions.solve(numbers, largest_target_);
    const auto& complete = solutions.complete();
    const int found = *std::find_if(complete.begin(), complete.end(),
                                    [&](int index) { return solutions.node(index).value == target; });
    Problem problem;
    problem.prompt = fmt::format("{}>{}=", fmt::join(numbers, ","), target);
    problem.answer = solutions.expression(found);
    problem.check = "expression";
    if (steps_) problem.response = solutions.steps(found) + "#" + problem.answer;
    return problem;
  }

 private:
  /// The next ascending sequence in [1, highest], or false after the last.
  static bool next_set(std::vector<int>& numbers, int highest) {
    size_t at = numbers.size();
    while (at > 0 && numbers[at - 1] == highest) --at;
    if (at == 0) return false;
    std::fill(numbers.begin() + static_cast<std::ptrdiff_t>(at) - 1, numbers.end(), numbers[at - 1] + 1);
    return true;
  }

  int largest_target_;
  size_t count_;
  bool multiply_;
  bool divide_;
  bool steps_;
  std::vector<int> sets_;         // count_ ascending numbers for each set
  std::vector<uint64_t> starts_;  // for each set: where its targets start
  std::vector<int> targets_;      // reachable targets, ascending within a set; the index is the rank
};

}  // namespace

std::unique_ptr<ProblemSpace> countdown_space(const TaskOptions& options) {
  return std::make_unique<CountdownSpace>(options);
}

}  // namespace minite::tasks
