#include "cli/scores.h"

#include <algorithm>

#include "tasks/checker.h"

namespace minite::cli {

std::vector<Sequence> windows_of(const std::vector<int32_t>& tokens, int64_t window, int64_t stride) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::vector<Sequence> windows;
  int64_t scored = 1;  // tokens that were scored, or cannot be
  for (int64_t begin = 0; scored < count; begin += stride) {
    const int64_t end = std::min(begin + window, count);
    if (end <= scored) continue;
    // A window that begins where the last ended gives its first token to the one before it to predict.
    const int64_t from = std::min(begin, scored - 1);
    windows.push_back({{tokens.begin() + from, tokens.begin() + end}, scored - from});
    scored = end;
  }
  return windows;
}

double mean_nll(std::span<const float> logp) {
  double sum = 0;
  for (const float l : logp) sum -= static_cast<double>(l);
  return sum / static_cast<double>(logp.size());
}

std::vector<int64_t> right_answers(LoadedModel& model, const std::vector<tasks::Problem>& problems,
                                   int64_t samples, const SampleParams& params) {
  std::vector<SampleRequest> requests;
  for (const tasks::Problem& problem : problems) {
    const std::vector<int32_t> prompt = model.tokenizer().encode_prompt(problem.prompt);
    for (int64_t j = 0; j < samples; ++j) requests.push_back({prompt, requests.size()});
  }
  const std::vector<Sample> answers = model.generate(requests, params);
  std::vector<int64_t> right;
  for (size_t i = 0; i < problems.size(); ++i) {
    const std::span<const Sample> mine(answers.data() + i * static_cast<size_t>(samples),
                                       static_cast<size_t>(samples));
    right.push_back(std::count_if(mine.begin(), mine.end(), [&](const Sample& s) {
      return s.finished && tasks::reward(problems[i], model.tokenizer().decode(s.tokens)) > 0;
    }));
  }
  return right;
}

}  // namespace minite::cli
