#pragma once
// What a rollout was, for the record: its contract and digests of what it drew.
#include <string>

#include "rl/rollout.h"

namespace minite::rl {

/// Members of a line of rollouts.jsonl: "contract", "contract_digest", "responses", "tokens",
/// "prompts_digest", "tokens_digest", "logprobs_digest". Digests are XXH64 as 16 hexadecimal digits, of: the
/// contract's JSON text; the I32 tokens of each prompt, then of each response, each followed by -1; the F32
/// log-probs of the sampler; all little endian.
[[nodiscard]] std::string rollout_members(const Rollout& rollout);

}  // namespace minite::rl
