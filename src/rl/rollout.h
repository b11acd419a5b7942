#pragma once
// Sampling of one step: responses, their rewards, dynamic sampling.
#include <vector>

#include "learn/learner.h"
#include "learn/run_folder.h"
#include "rl/stages.h"

namespace minite::rl {

/// What one step trains on, ragged by response; the responses of a prompt stand together.
struct Rollout {
  std::vector<Sequence> sequences;
  std::vector<int64_t> offsets = {0};  ///< [responses + 1] into the per-token arrays
  std::vector<double> rewards;         ///< [responses], of the verifier
  std::vector<double> penalties;       ///< [responses], <= 0, for the length
  std::vector<uint8_t> finished;       ///< [responses], 1: ended by itself
  std::vector<double> logp_sampler;    ///< [tokens]
  std::vector<uint8_t> mask;           ///< [tokens]
  std::vector<Routes> routes;          ///< [responses], the sampler's experts; empty without experts
  io::Contract contract;               ///< under which all of it was drawn; empty where nobody filled it in

  [[nodiscard]] int64_t responses() const { return static_cast<int64_t>(rewards.size()); }
  /// Appends the responses [begin, end) of `other`.
  void append(const Rollout& other, int64_t begin, int64_t end);
};

/// What the sampler gave, as a rollout: rewards of the checker of problems[i] (0 for a response that did not
/// end by itself), penalties 0, mask 1. `requests` and `problems` have one entry a sample.
[[nodiscard]] Rollout rewarded(std::span<const SampleRequest> requests, std::vector<Sample> samples,
                               std::span<const tasks::Problem* const> problems,
                               const io::Tokenizer& tokenizer);

/// Samples train_batch_size prompts for update `step` (from 0) of `stage`. With filter_groups, prompts whose
/// responses all have the same reward are replaced from further rollouts, at most max_num_gen_batches in all;
/// what is still missing then is filled with prompts of the first rollout, which have advantage 0. Adds its
/// metrics, over everything that was sampled, and tokens to `record`.
[[nodiscard]] Rollout roll_out(const StageContext& ctx, learn::Stage stage, int64_t step, StepRecord& record);

}  // namespace minite::rl
