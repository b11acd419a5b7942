#pragma once
// One verifiable problem, as a generator makes it and as a JSONL line holds it.
#include <optional>
#include <string>
#include <string_view>

namespace minite::tasks {

struct Problem {
  std::string prompt;                   ///< what the model reads; never empty
  std::string answer;                   ///< what a right response ends in; never empty
  std::optional<std::string> response;  ///< a worked solution that ends in the answer
  std::string check = "exact";          ///< name of a row of checkers() in tasks/checker.h

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// What SFT teaches after the prompt: the worked response, or the bare answer when there is none. The view
/// lives as long as `problem`.
inline std::string_view sft_target(const Problem& problem) {
  return problem.response ? *problem.response : problem.answer;
}

}  // namespace minite::tasks
