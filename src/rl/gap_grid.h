#pragma once
// The grid of gaps: tokens are drawn once, every side scores the same tokens, each pair of sides is a cell.
#include <functional>
#include <optional>

#include "minite/rl.h"
#include "rl/gap_cause.h"
#include "rl/gap_details.h"
#include "rl/rollout.h"

namespace minite::rl {

struct GapGridOptions {
  std::vector<GapSide> learners, samplers;  ///< at least one each; the first sampler draws the tokens
  int64_t samples = 4;                      ///< responses a prompt
  int64_t max_new_tokens = 128;
  float temperature = 1.0f;  ///< of drawing and of every log-prob; 0: greedy, log-probs at 1
  uint64_t seed = 0;
  std::optional<double> tail_threshold;  ///< see gap_details()
  /// What learners score as: their pass for l_old under each mode, so that only R3 differs from off.
  std::vector<RouterReplay> replay = {RouterReplay::off};
};

/// A side with its log-prob of every token; a side may give NaN.
struct GapScores {
  GapSide side;
  RouterReplay replay = RouterReplay::off;  ///< of a learner
  std::optional<size_t> experts_of = {};    ///< the sampler whose experts a learner took
  std::vector<double> logp = {};            ///< [tokens]
  /// [responses] with experts: those that a sampler took, and of a learner those of its own scores, which it
  /// did not take where it replayed others.
  std::vector<Routes> routes = {};
};

/// A pair of sides; a learner that replays a sampler's experts is paired with that sampler only. The first
/// four numbers are NaN when a token's gap is not finite.
struct GapCell {
  size_t learner = 0, sampler = 0;  ///< into GapGrid
  double abs_mean = 0, abs_max = 0, q05 = 0, q01 = 0;
  int64_t tokens = 0;
  int64_t non_finite = 0;  ///< tokens whose gap is NaN or infinite
  /// With experts: share of (token, layer) rows of which the learner's own scores choose other experts than
  /// the sampler took.
  std::optional<double> router_mismatch;
  std::optional<GapDetails> details;  ///< over tokens with a finite gap; empty when there is none
  std::vector<GapCause> causes;       ///< empty when every gap is exactly 0
};

struct GapGrid {
  Rollout rollout;                ///< the tokens; logp_sampler is what drawing them recorded
  std::vector<double> advantage;  ///< [responses], of groups of `samples`; 0 with one sample a prompt
  std::vector<GapScores> learners, samplers;
  std::vector<GapCell> cells;  ///< learners outside, then modes of replay, samplers inside
  int64_t quantized = 0;       ///< weight tensors quantized, once for all sides that share their codes
  int64_t redrawn = 0;         ///< tokens whose log-prob in teacher forcing has other bits than in drawing
};

/// What the weights of a checkpoint score and on what.
struct GapInput {
  Weights& weights;
  const RunConfig& config;  ///< rules, policy, micro_tokens, sampler_sequences and adv_estimator are used
  const io::Tokenizer& tokenizer;
  std::span<const tasks::Problem> problems;
  const OpTable& table;
  ThreadPool& pool;
};

/// Runs the grid. Sampler sides score by prefill and token-by-token decode, learner sides by the learner's
/// packed forward pass; one of them is in memory at a time, and each distinct recipe and format runs once a
/// role; a learner that replays experts runs once a sampler. `message` hears what is running. Errors: as
/// make_network() (with the layer), check_prompt(), non_finite when the first sampler's log-probs are not
/// finite, so that its tokens mean nothing.
[[nodiscard]] GapGrid gap_grid(const GapInput& input, const GapGridOptions& options,
                               const std::function<void(const std::string&)>& message = {});

/// The cell of two lists of log-probs over the same ragged tokens, without causes.
[[nodiscard]] GapCell gap_cell(std::span<const int64_t> offsets, std::span<const double> learner,
                               std::span<const double> sampler, std::span<const double> advantage,
                               std::optional<double> tail_threshold);

}  // namespace minite::rl
