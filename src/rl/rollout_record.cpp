#include "rl/rollout_record.h"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "io/digest.h"

namespace minite::rl {
namespace {

static_assert(std::endian::native == std::endian::little, "digests are of little endian bytes");

/// Ends the tokens of one response, so that where a response ends is part of the digest; no token is -1.
constexpr int32_t kEnd = -1;

template <class T>
std::string digest(const std::vector<T>& values) {
  return fmt::format("{:016x}", io::digest64(std::as_bytes(std::span(values))));
}

}  // namespace

std::string rollout_members(const Rollout& r) {
  std::vector<int32_t> prompts, tokens;
  for (const Sequence& s : r.sequences) {
    const auto end = s.tokens.begin() + s.prompt;
    prompts.insert(prompts.end(), s.tokens.begin(), end);
    prompts.push_back(kEnd);
    tokens.insert(tokens.end(), end, s.tokens.end());
    tokens.push_back(kEnd);
  }
  // Log-probs were widened from FP32, so this is exact.
  std::vector<float> logp;
  for (const double x : r.logp_sampler) logp.push_back(static_cast<float>(x));
  const std::string contract = io::to_json(r.contract).dump();
  return fmt::format(
      R"("contract":{},"contract_digest":"{:016x}","responses":{},"tokens":{},"prompts_digest":"{}",)"
      R"("tokens_digest":"{}","logprobs_digest":"{}")",
      contract, io::digest64(contract), r.responses(), r.offsets.back(), digest(prompts), digest(tokens),
      digest(logp));
}

}  // namespace minite::rl
