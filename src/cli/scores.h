#pragma once
// Scores of a loaded model: perplexity of a text, and answers to problems.
#include <span>
#include <string>
#include <vector>

#include "cli/loaded_model.h"
#include "tasks/jsonl.h"

namespace minite::cli {

inline constexpr int64_t kScoreWindow = 512;  ///< tokens of a forward pass where nobody says otherwise

/// Windows of `window` tokens, `stride` apart. Each scores what none before it did: its last `stride` tokens
/// as a rule, in the first all but the first, which nothing predicts.
[[nodiscard]] std::vector<Sequence> windows_of(const std::vector<int32_t>& tokens, int64_t window,
                                               int64_t stride);
/// Mean of -logp, in FP64.
[[nodiscard]] double mean_nll(std::span<const float> logp);

/// Answers of `samples` draws a problem, and how many of each problem's are right.
[[nodiscard]] std::vector<int64_t> right_answers(LoadedModel& model,
                                                 const std::vector<tasks::Problem>& problems, int64_t samples,
                                                 const SampleParams& params);

}  // namespace minite::cli
