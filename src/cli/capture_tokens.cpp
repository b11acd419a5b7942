#include "cli/capture_tokens.h"

#include <algorithm>

#include "core/fail.h"
#include "rl/problems.h"

namespace minite::cli {

CaptureInputTokens from_problems(const std::vector<tasks::Problem>& problems, int64_t samples,
                                 const io::Tokenizer& tokenizer, const ModelConfig& model) {
  CaptureInputTokens given{{}, samples};
  for (const tasks::Problem& problem : problems) {
    rl::check_prompt(tokenizer, problem, model.max_position_embeddings);
    for (int64_t j = 0; j < samples; ++j)
      given.tokens.requests.push_back({rl::encode_prompt(tokenizer, problem), given.tokens.requests.size()});
  }
  return given;
}

CaptureInputTokens from_capture(const diagnostics::Capture& capture,
                                const std::vector<tasks::Problem>& problems, const io::Tokenizer& tokenizer) {
  CaptureInputTokens given;
  for (const diagnostics::CapturedSequence& s : capture.sequences()) {
    const std::vector<int32_t> prompt(s.tokens.begin(), s.tokens.begin() + s.prompt);
    const auto problem = static_cast<size_t>(s.request);
    require(problems.empty() ||
                (problem < problems.size() && rl::encode_prompt(tokenizer, problems[problem]) == prompt),
            "--tokens {}: the prompt of request {} is not problem {} of --data", capture.name(), s.request,
            s.request + 1);
    given.samples = std::max<int64_t>(given.samples, s.sample + 1);
    given.tokens.requests.push_back({prompt, given.tokens.requests.size()});
    given.tokens.responses.emplace_back(s.tokens.begin() + s.prompt, s.tokens.end());
  }
  const auto requests = static_cast<int64_t>(given.tokens.requests.size());
  require(requests % given.samples == 0, "--tokens {}: {} sequences are not {} samples of each request",
          capture.name(), requests, given.samples);
  return given;
}

}  // namespace minite::cli
