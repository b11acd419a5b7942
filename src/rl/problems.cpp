#include "rl/problems.h"

#include "core/fail.h"
#include "io/digest.h"
#include "tasks/generators.h"
#include "tasks/jsonl.h"

namespace minite::rl {

Problems::Problems(const DataConfig& config) {
  if (!config.generator.empty()) {
    const tasks::ProblemSource source(config.generator, config.options, config.seed);
    require(config.problems > 0, "data.problems={}: say how many problems of generator '{}' to train on",
            config.problems, config.generator);
    problems_ = source.take(static_cast<uint64_t>(config.problems));
    alphabet_ = tasks::generator(config.generator).alphabet;
    return;
  }
  problems_ = tasks::read_problems(config.file);
  if (config.problems > 0 && config.problems < size()) problems_.resize(static_cast<size_t>(config.problems));
  for (const tasks::Problem& p : problems_) alphabet_ += p.prompt + p.answer + p.response.value_or("");
}

std::string Problems::digest() const {
  std::string lines;
  for (const tasks::Problem& p : problems_) lines += tasks::format_problem(p) + "\n";
  return fmt::format("{:016x}", io::digest64(lines));
}

void check_prompt(const io::Tokenizer& tokenizer, const tasks::Problem& problem, int64_t max_length) {
  const auto length = static_cast<int64_t>(encode_prompt(tokenizer, problem).size());
  require(length < max_length,
          "prompt '{}' has {} tokens and leaves no room for a response within max_length={}; shorten it or "
          "raise max_length",
          problem.prompt, length, max_length);
}

std::vector<int32_t> encode_prompt(const io::Tokenizer& tokenizer, const tasks::Problem& problem) {
  return tokenizer.encode_prompt(problem.prompt);
}

Sequence encode_example(const io::Tokenizer& tokenizer, const tasks::Problem& problem, int64_t max_length) {
  Sequence sequence{encode_prompt(tokenizer, problem), 0};
  sequence.prompt = static_cast<int64_t>(sequence.tokens.size());
  const std::vector<int32_t> text = tokenizer.encode(tasks::sft_target(problem));
  sequence.tokens.insert(sequence.tokens.end(), text.begin(), text.end());
  sequence.tokens.push_back(tokenizer.eos_id());
  require(static_cast<int64_t>(sequence.tokens.size()) <= max_length,
          "problem '{}' and its response are {} tokens, more than max_length={}; raise it", problem.prompt,
          sequence.tokens.size(), max_length);
  return sequence;
}

}  // namespace minite::rl
