#pragma once
// The learner: packed teacher-forced forward, backward in micro-batches, clipping, AdamW.
#include <cstdint>
#include <functional>
#include <vector>

#include "core/trace.h"
#include "model/network.h"

namespace minite {

/// A prompt followed by a response; only response tokens are scored.
struct Sequence {
  std::vector<int32_t> tokens;
  int64_t prompt = 0;  ///< leading tokens that are given, at least 1
  [[nodiscard]] int64_t response() const { return static_cast<int64_t>(tokens.size()) - prompt; }
};

struct OptimizerConfig {
  float lr = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  float weight_decay = 0.0f;  ///< on matrices, not on norms
  float max_grad_norm = 1.0f;
};

/// Sizes of a learner's memory.
struct LearnerLimits {
  int64_t micro_tokens = 16384;  ///< tokens of one micro-batch; a longer sequence is refused
  int64_t max_length = 128;
};

/// Response tokens of sequences [begin, end) of the step, concatenated.
struct MicroBatch {
  int64_t begin = 0, end = 0;
  std::span<const float> logp, entropy;
  std::span<float> dlogp;     ///< to fill: d loss / d logp
  std::span<float> dentropy;  ///< to fill when the learner was asked for entropy gradients, else empty
};

/// Seconds spent in the parts of a step.
struct StepTimes {
  double forward = 0, backward = 0, optimizer = 0;
};

/// Of the learner's forward passes of a step; empty without experts.
struct RouterStats {
  int64_t experts = 0;        ///< of one layer
  std::vector<int64_t> load;  ///< [layers * experts] tokens that went to each expert
  double aux_loss = 0;        ///< load-balancing loss, mean over layers, micro-batches weighted by tokens
};

struct StepResult {
  double grad_norm = 0;  ///< L2 norm of all main gradients before clipping
  float clip_scale = 1;  ///< what the gradient was multiplied with
  int64_t tokens = 0;    ///< tokens of the forward pass
  RouterStats router;
  StepTimes times;
};

/// Router replay of a pass over sequences; each list has one entry a sequence, or is empty. A sequence has
/// one row a token; the last token is a target only, its row stays -1. Outputs may not be the replayed
/// routes.
struct Routing {
  std::span<const Routes> replay = {};  ///< experts to take; rows of -1 route live
  std::span<Routes> used = {};          ///< out: experts taken, with their weights
  std::span<Routes> live = {};          ///< out: experts of the live logits
};

class Learner {
 public:
  /// `weights` are those of `network`, with Purpose::training. Both must outlive the learner.
  Learner(Weights& weights, const Network& network, const OpTable& table, ThreadPool& pool,
          const LearnerLimits& limits);

  /// Log-probs and entropies of all response tokens, concatenated in order. Outputs have one entry a
  /// response token; `entropy` may be empty. Throws invalid_argument for routes that do not fit.
  void score(std::span<const Sequence> sequences, float temperature, std::span<float> logp,
             std::span<float> entropy, const Routing& routing = {});

  using Gradient = std::function<void(const MicroBatch&)>;
  enum class EntropyGradient : uint8_t { none, wanted };

  /// Forward and backward over all sequences; `gradient` is called once a micro-batch, in order. Main
  /// gradients hold the sum afterwards; weights are untouched. With experts, the gradient includes
  /// router_aux_loss_coef times RouterStats::aux_loss.
  StepResult accumulate(std::span<const Sequence> sequences, float temperature, EntropyGradient entropy,
                        const Gradient& gradient, double router_aux_loss_coef = 0,
                        const Routing& routing = {});
  /// Clips and applies the accumulated gradients as update `update` (1-based). Throws non_finite when their
  /// norm is not finite; nothing is applied then.
  void apply(const OptimizerConfig& config, int64_t update, StepResult& result);

  /// Where the first NaN or infinity of a forward pass over `sequences` appears, in words; else the first one
  /// in the weights, which a quantized forward pass may hide; "" when there is none.
  [[nodiscard]] std::string locate_non_finite(std::span<const Sequence> sequences);

  /// Seed of the stochastic rounding of gradients, for recipes that have it. Give every update one of its
  /// own: it is all that the random bits depend on, besides micro-batch, module and element.
  void set_noise(uint64_t seed) { noise_ = seed; }
  void set_probe(Probe* probe) { context_.probe = probe; }
  /// Told of the spans learner_forward and backward of accumulate(); nullptr: nobody.
  void set_trace(Trace* trace) { trace_ = trace; }
  [[nodiscard]] const Context& context() const { return context_; }

 private:
  struct Packed;
  [[nodiscard]] int64_t micro_end(std::span<const Sequence> sequences, int64_t begin) const;
  void start_routes(std::span<const Sequence> sequences, const Routing& routing) const;
  void announce(const Packed& batch, int64_t first) const;
  void forward(const Packed& batch, int64_t first, const Routing& routing, Activations& act,
               float temperature);
  void add_router_stats(const Activations& act, double share, RouterStats& stats) const;

  Weights* weights_;
  const Network* network_;
  Context context_;
  LearnerLimits limits_;
  Buffer cache_, arena_, scratch_;
  int64_t temp_bytes_ = 0;
  uint64_t noise_ = 0;
  Trace* trace_ = nullptr;
};

}  // namespace minite
