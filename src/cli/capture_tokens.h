#pragma once
// The prompts and responses that a capture runs over.
#include <vector>

#include "diagnostics/capture_reader.h"
#include "io/tokenizer.h"
#include "rl/capture_run.h"
#include "tasks/problem.h"

namespace minite::cli {

struct CaptureInputTokens {
  rl::CaptureTokens tokens;
  int64_t samples = 1;  ///< responses a prompt
};

/// Prompts of the problems, `samples` requests each. Errors: as rl::check_prompt().
[[nodiscard]] CaptureInputTokens from_problems(const std::vector<tasks::Problem>& problems, int64_t samples,
                                               const io::Tokenizer& tokenizer, const ModelConfig& model);
/// Prompts and responses of another capture; `problems`, unless empty, must be those it was made from. Errors
/// (invalid_argument) name the capture and the request.
[[nodiscard]] CaptureInputTokens from_capture(const diagnostics::Capture& capture,
                                              const std::vector<tasks::Problem>& problems,
                                              const io::Tokenizer& tokenizer);

}  // namespace minite::cli
