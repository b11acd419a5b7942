#pragma once
// One side over given prompts, with a probe that listens: what `minite capture` runs.
#include <filesystem>
#include <optional>

#include "core/probe.h"
#include "learn/learner.h"
#include "minite/rl.h"
#include "rl/capture_fault.h"
#include "rl/contract.h"
#include "rl/run_config.h"
#include "sample/sampler.h"

namespace minite::rl {

enum class Role : uint8_t { learner, sampler };

struct CaptureOptions {
  Role role = Role::sampler;
  std::string recipe;
  KvFormat kv = KvFormat::bf16;
  SampleParams draw;                        ///< temperature, top_k, top_p, max_new_tokens, seed
  int64_t weight_version = 0;               ///< of the checkpoint
  RouterReplay replay = RouterReplay::off;  ///< for the contract; what is replayed is CaptureTokens::routes
  std::vector<FaultId> faults;              ///< each once
  int64_t fault_layer = 0;
  std::filesystem::path earlier;  ///< for stale-weights: the checkpoint before, or empty
  int64_t earlier_version = 0;
};

/// Prompts, and responses where they are given.
struct CaptureTokens {
  std::vector<SampleRequest> requests;
  std::vector<std::vector<int32_t>> responses;  ///< one a request, or empty: the sampler draws them
  std::vector<Routes> routes;  ///< experts that a learner replays, one a request; or empty: it routes live
};

struct CaptureInput {
  Weights& weights;         ///< with Purpose::training for the fault stale-weights; a fault may change them
  const RunConfig& config;  ///< rules, sampler_policy, micro_tokens and sampler_sequences are used
  const OpTable& table;
  ThreadPool& pool;
};

/// What was run, and on what.
struct CaptureResult {
  std::vector<Sequence> sequences;
  std::vector<float> logp, entropy;  ///< of all response tokens, concatenated
  io::Contract contract;             ///< what the side claims: a fault of weights or scoring is not in it
  WeightDigests in_use;              ///< of the weights that ran
  int64_t version_in_use = 0;
  std::vector<std::string> plans;
  /// Of the experts that were replayed and those of the live scores; nothing without replay.
  std::optional<RouteDifference> replayed;
};

/// Runs the side. A learner scores by its packed forward pass, a sampler by prefill and decode. Errors:
/// invalid_argument (no responses for a learner, a fault that would change nothing), as Network (with the
/// layer) and Sampler.
[[nodiscard]] CaptureResult run_capture(const CaptureInput& input, const CaptureOptions& options,
                                        const CaptureTokens& tokens, Probe& probe);

}  // namespace minite::rl
