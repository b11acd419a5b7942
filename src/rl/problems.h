#pragma once
// The problems of a run, from a file or a generator, as tokens.
#include <memory>
#include <vector>

#include "io/tokenizer.h"
#include "learn/learner.h"
#include "rl/run_config.h"
#include "tasks/problem.h"

namespace minite::rl {

class Problems {
 public:
  /// Reads or makes all problems. Errors name file and line, or the generator and its options.
  explicit Problems(const DataConfig& config);

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(problems_.size()); }
  /// Problem `index`, wrapping around.
  [[nodiscard]] const tasks::Problem& at(int64_t index) const { return problems_[index % size()]; }
  /// XXH64 of all problems as JSONL lines, 16 hexadecimal digits.
  [[nodiscard]] std::string digest() const;
  /// Every character that prompts and responses hold, for a tokenizer made from scratch.
  [[nodiscard]] const std::string& alphabet() const { return alphabet_; }

 private:
  std::vector<tasks::Problem> problems_;
  std::string alphabet_;
};

/// Errors: a character without a token; a prompt that leaves no room for a response within max_length.
void check_prompt(const io::Tokenizer& tokenizer, const tasks::Problem& problem, int64_t max_length);
/// The prompt behind what the tokenizer puts before every text, <bos> as a rule.
[[nodiscard]] std::vector<int32_t> encode_prompt(const io::Tokenizer& tokenizer,
                                                 const tasks::Problem& problem);
/// The prompt, the worked response and <eos>. Errors: a sequence longer than max_length, with its prompt.
[[nodiscard]] Sequence encode_example(const io::Tokenizer& tokenizer, const tasks::Problem& problem,
                                      int64_t max_length);

}  // namespace minite::rl
