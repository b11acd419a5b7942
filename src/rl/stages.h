#pragma once
// One step of each stage: supervised, or rollout, reward, loss, update. Steps depend on (config, weights,
// step) alone, so that a resumed run repeats an uninterrupted one bit for bit.
#include "core/trace.h"
#include "diagnostics/step_probe.h"
#include "learn/run_folder.h"
#include "rl/engine.h"
#include "rl/problems.h"

namespace minite::rl {

/// What a step leaves in the logs.
struct StepRecord {
  learn::Metrics metrics;
  learn::Metrics seconds;
  std::string rollout;  ///< of rl_step(): rollout_members() of what it trained on
  int64_t tokens = 0;   ///< of the learner's forward pass and of sampling
};

/// What every stage works on.
struct StageContext {
  const RunConfig& config;
  const Problems& problems;
  const io::Tokenizer& tokenizer;
  Engine& engine;
  Reference* reference = nullptr;                 ///< of the KL penalty; null without one
  const learn::WeightHistory* history = nullptr;  ///< what a lagging sampler runs with; null without one
  diagnostics::StepProbe* probe = nullptr;        ///< what looks at this step; null: nothing
  Trace* trace = nullptr;                         ///< told of phases; null: nobody

  /// Who listens to a side in this step, or nullptr.
  [[nodiscard]] Probe* listener(diagnostics::Side side) const {
    return probe == nullptr ? nullptr : probe->side(side);
  }
};

/// Supervised update `step` (from 0): mean negative log-likelihood over all response tokens of the batch.
StepRecord sft_step(const StageContext& ctx, int64_t step);

/// Step `step` (from 0) of the stage `stage`, whose index keys the sampling noise: one rollout and one
/// optimizer update, or ppo_epochs passes of several over the same rollout. The learner's old log-probs and
/// all weights made from them are those before the first update.
StepRecord rl_step(const StageContext& ctx, learn::Stage stage, int64_t step);

}  // namespace minite::rl
