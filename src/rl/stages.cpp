#include "rl/stages.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/fail.h"
#include "core/philox.h"
#include "learn/non_finite.h"
#include "rl/rollout.h"
#include "rl/rollout_record.h"
#include "rl/routing.h"

namespace minite::rl {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

OptimizerConfig optimizer(const RunConfig& c, double lr, double weight_decay) {
  OptimizerConfig o;
  o.lr = static_cast<float>(lr);
  o.beta1 = static_cast<float>(c.beta1);
  o.beta2 = static_cast<float>(c.beta2);
  o.weight_decay = static_cast<float>(weight_decay);
  o.max_grad_norm = static_cast<float>(c.max_grad_norm);
  return o;
}

/// Learning rate of `step`: linear warm-up, then a cosine from lr to lr_end * lr over the stage.
template <class StageConfig>
double learning_rate(const StageConfig& c, int64_t step) {
  constexpr double kPi = 3.14159265358979323846;
  const double warm =
      step + 1 >= c.warmup_steps ? 1.0 : static_cast<double>(step + 1) / static_cast<double>(c.warmup_steps);
  const double progress = static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, c.steps));
  const double decay = c.lr_end + (1.0 - c.lr_end) * 0.5 * (1.0 + std::cos(kPi * progress));
  return c.lr * warm * decay;
}

/// Lets a probe listen to a learner or a sampler for the life of the object, which an error may end.
template <class Engine>
class Listening {
 public:
  Listening(Engine& engine, Probe* probe) : engine_(engine) { engine_.set_probe(probe); }
  ~Listening() { engine_.set_probe(nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  Engine& engine_;
};

struct Position {
  learn::Stage stage;
  int64_t step;  ///< from 0
};

/// Stops a step that did not change the weights: `reason`, and where the first bad value appeared.
[[noreturn]] void stop(const StageContext& ctx, const Position& at, const std::vector<Sequence>& sequences,
                       std::string_view reason) {
  std::string where = ctx.engine.learner().locate_non_finite(sequences);
  if (where.empty()) where = "not in the forward pass and not in the weights, so in the backward pass";
  fail(ErrorCode::non_finite, "{} step {}: {}. First bad value: {}", learn::stage_name(at.stage), at.step + 1,
       reason, where);
}

/// Runs `work`, a pass over `sequences` that leaves the weights alone.
template <class Work>
void guarded(const StageContext& ctx, const Position& at, const std::vector<Sequence>& sequences,
             const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::non_finite) throw;
    stop(ctx, at, sequences, fmt::format("{}; the update was not applied", error.what()));
  }
}

/// The `index`-th optimizer update of a step that has `count` of them.
struct Update {
  int64_t index = 0, count = 1;
};

/// How the learner's forward passes spread tokens over experts, as a share of the step's mean over updates;
/// nothing without experts.
void router_metrics(const RouterStats& router, double share, learn::Metrics& metrics) {
  if (router.load.empty()) return;
  const auto experts = static_cast<size_t>(router.experts);
  double busiest = 0;
  int64_t idle = 0;
  for (size_t begin = 0; begin < router.load.size(); begin += experts) {
    const auto layer = std::span(router.load).subspan(begin, experts);
    const auto total = static_cast<double>(std::accumulate(layer.begin(), layer.end(), int64_t{0}));
    const auto most = static_cast<double>(*std::max_element(layer.begin(), layer.end()));
    busiest = std::max(busiest, most * static_cast<double>(experts) / total);
    idle += std::count(layer.begin(), layer.end(), 0);
  }
  metrics["router_aux_loss"] += share * router.aux_loss;
  metrics["expert_load_max"] += share * busiest;  // over the mean load, in the layer where that is largest
  metrics["experts_idle"] += share * static_cast<double>(idle);
}

/// The random bits of an update's stochastic rounding repeat when the update is repeated after a resume.
void set_noise(const StageContext& ctx, const Position& at, const Update& update) {
  const auto words =
      Philox::generate(ctx.config.seed, static_cast<uint64_t>(at.step),
                       static_cast<uint64_t>(update.index) << 8 | static_cast<uint64_t>(at.stage));
  ctx.engine.learner().set_noise(uint64_t{words[1]} << 32 | words[0]);
}

/// Applies the update, quantizes the weights once and records what it took.
void finish(const StageContext& ctx, const Position& at, const Update& update,
            const std::vector<Sequence>& sequences, const OptimizerConfig& optimizer, StepResult& result,
            StepRecord& record) {
  try {
    const Span span(ctx.trace, "optimizer");
    ctx.engine.learner().apply(optimizer, at.step * update.count + update.index + 1, result);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::non_finite) throw;
    stop(ctx, at, sequences, error.what());
  }
  const auto start = std::chrono::steady_clock::now();
  const Span span(ctx.trace, "quantize_weights");
  record.metrics["weight_tensors_quantized"] = static_cast<double>(ctx.engine.synchronize());
  record.seconds["quantize"] += seconds_since(start);
  record.seconds["learner_forward"] += result.times.forward;
  record.seconds["backward"] += result.times.backward;
  record.seconds["optimizer"] += result.times.optimizer;
  record.metrics["grad_norm"] += result.grad_norm / static_cast<double>(update.count);
  router_metrics(result.router, 1.0 / static_cast<double>(update.count), record.metrics);
  record.metrics["lr"] = static_cast<double>(optimizer.lr);
  record.tokens += result.tokens;
}

std::vector<double> widen(std::span<const float> x) { return {x.begin(), x.end()}; }

/// Per-token inputs of the loss, of all responses of a rollout. The old log-probs are the learner's own, at
/// the weights that sampled.
struct Scores {
  std::vector<double> advantage, old, reference;  ///< old and reference may be empty
};

/// The loss side of one update, over the responses [begin, end) of a rollout. Without old log-probs the first
/// micro-batch supplies them, which must then be the only one.
class PolicyLoss {
 public:
  PolicyLoss(const Rollout& r, const Scores& scores, const LossConfig& config, int64_t begin, int64_t end,
             int64_t step)
      : config_(config), step_(step) {
    const int64_t first = r.offsets[begin], tokens = r.offsets[end] - first;
    for (int64_t i = begin; i <= end; ++i) offsets_.push_back(r.offsets[i] - first);
    const auto cut = [&](const auto& values) { return std::span(values).subspan(first, tokens); };
    batch_.offsets = offsets_;
    batch_.logp_sampler = cut(r.logp_sampler);
    batch_.mask = cut(r.mask);
    batch_.advantage = cut(scores.advantage);
    if (!scores.reference.empty()) batch_.logp_ref = cut(scores.reference);
    if (!scores.old.empty()) freeze(cut(scores.old));
  }

  void operator()(const MicroBatch& m) {
    const std::vector<double> logp = widen(m.logp), entropy = widen(m.entropy);
    if (!frozen_) {
      own_old_ = logp;
      freeze(own_old_);
    }
    std::vector<double> dlogp(logp.size()), dentropy(m.dentropy.size());
    evaluate(batch_, prepared_, m.begin, m.end, {logp, entropy}, {dlogp, dentropy}, sums_);
    std::copy(dlogp.begin(), dlogp.end(), m.dlogp.begin());
    std::copy(dentropy.begin(), dentropy.end(), m.dentropy.begin());
  }

  [[nodiscard]] std::vector<std::pair<std::string, double>> metrics() const {
    return rl::metrics(batch_, prepared_, sums_);
  }

 private:
  void freeze(std::span<const double> old) {
    batch_.logp_old = old;
    prepared_ = prepare(batch_, config_, step_);
    frozen_ = true;
  }

  LossConfig config_;
  int64_t step_;
  std::vector<int64_t> offsets_;
  Batch batch_;
  std::vector<double> own_old_;
  Prepared prepared_;
  MetricSums sums_;
  bool frozen_ = false;
};

int64_t input_tokens(const std::vector<Sequence>& sequences) {
  int64_t tokens = 0;
  for (const Sequence& s : sequences) tokens += static_cast<int64_t>(s.tokens.size()) - 1;
  return tokens;
}

/// Optimizer updates of one rollout: epochs times mini-batches.
struct Schedule {
  int64_t epochs, mini_batches;
  int64_t responses;  ///< of a mini-batch
  [[nodiscard]] int64_t updates() const { return epochs * mini_batches; }
};

Schedule schedule(const RlConfig& c) {
  const int64_t prompts = c.ppo_mini_batch_size > 0 ? c.ppo_mini_batch_size : c.train_batch_size;
  return {c.ppo_epochs, c.train_batch_size / prompts, prompts * c.n};
}

std::vector<double> token_advantages(const Rollout& r, const RlConfig& c) {
  std::vector<double> rewards = r.rewards, per_token(r.mask.size());
  for (size_t i = 0; i < rewards.size(); ++i) rewards[i] += r.penalties[i];
  group_advantages(parse<AdvEstimator>(c.adv_estimator), c.n, rewards, rewards);
  broadcast_advantage(r.offsets, rewards, per_token);
  return per_token;
}

/// When one micro-batch holds the only update of the rollout, the training pass itself supplies the old
/// log-probs; otherwise a scoring pass runs first.
Scores score(const StageContext& ctx, const Position& at, const Rollout& r, StepRouting& routing,
             StepRecord& record) {
  const RlConfig& c = ctx.config.rl;
  const auto temperature = static_cast<float>(c.temperature);
  Scores scores;
  scores.advantage = token_advantages(r, c);
  std::vector<float> logp(r.mask.size());
  if (schedule(c).updates() > 1 || input_tokens(r.sequences) > ctx.config.micro_tokens) {
    const auto start = std::chrono::steady_clock::now();
    const Span span(ctx.trace, "score");
    guarded(ctx, at, r.sequences,
            [&] { ctx.engine.learner().score(r.sequences, temperature, logp, {}, routing.old_pass()); });
    scores.old = widen(logp);
    record.seconds["learner_forward"] += seconds_since(start);
  }
  if (ctx.reference != nullptr) {
    const auto start = std::chrono::steady_clock::now();
    const Span span(ctx.trace, "reference");
    ctx.reference->score(r.sequences, temperature, logp);
    scores.reference = widen(logp);
    record.seconds["reference_forward"] = seconds_since(start);
  }
  return scores;
}

/// One optimizer update on the responses [begin, end).
void update_policy(const StageContext& ctx, const Position& at, const Update& update, const Rollout& r,
                   const Scores& scores, StepRouting& routing, int64_t begin, int64_t end,
                   StepRecord& record) {
  const RlConfig& c = ctx.config.rl;
  const auto entropy =
      c.entropy_coeff != 0 ? Learner::EntropyGradient::wanted : Learner::EntropyGradient::none;
  std::optional<PolicyLoss> loss;  // its constructor already refuses log-probs that are not finite
  StepResult result;
  set_noise(ctx, at, update);
  const Listening listening(ctx.engine.learner(), ctx.listener(diagnostics::Side::learner));
  guarded(ctx, at, r.sequences, [&] {
    loss.emplace(r, scores, loss_config(c), begin, end, at.step);
    result = ctx.engine.learner().accumulate(std::span(r.sequences).subspan(begin, end - begin),
                                             static_cast<float>(c.temperature), entropy, std::ref(*loss),
                                             c.router_aux_loss_coef, routing.update_pass(begin, end));
  });
  routing.count_drift(begin, end);
  finish(ctx, at, update, r.sequences, optimizer(ctx.config, learning_rate(c, at.step), c.weight_decay),
         result, record);
  for (const auto& [name, value] : loss->metrics())
    record.metrics[name] += value / static_cast<double>(update.count);
}

/// Several updates share one gap: that of the whole rollout, before the first of them.
void whole_gap(const Rollout& r, const Scores& scores, learn::Metrics& metrics) {
  Batch batch;
  batch.offsets = r.offsets;
  batch.logp_sampler = r.logp_sampler;
  batch.logp_old = scores.old;
  batch.mask = r.mask;
  batch.advantage = scores.advantage;
  for (const auto& [name, value] : gap_metrics(batch)) metrics[name] = value;
}

/// Stops when a log-prob of the sampler is not finite: which one, and where its forward pass went wrong.
void check_sampler(const StageContext& ctx, const Position& at, const Rollout& r) {
  const auto bad = std::ranges::find_if(r.logp_sampler, [](double x) { return !std::isfinite(x); });
  if (bad == r.logp_sampler.end()) return;
  const int64_t token = bad - r.logp_sampler.begin();
  const int64_t response = std::ranges::upper_bound(r.offsets, token) - r.offsets.begin() - 1;
  const int64_t position = token - r.offsets[response];
  const Sequence& s = r.sequences[response];
  SampleRequest again{{s.tokens.begin(), s.tokens.begin() + s.prompt + position}, 0};
  SampleParams params;
  params.max_new_tokens = 1;
  NonFiniteProbe probe;
  ctx.engine.sampler().set_probe(&probe);
  (void)ctx.engine.sampler().generate(std::span(&again, 1), params);
  ctx.engine.sampler().set_probe(nullptr);
  const std::string reason =
      fmt::format("the sampler's log-prob of response {}, token {} is {}; the update was not applied",
                  response, position, *bad);
  if (probe.found().empty()) stop(ctx, at, r.sequences, reason);
  fail(ErrorCode::non_finite, "{} step {}: {}. First bad value: {}", learn::stage_name(at.stage), at.step + 1,
       reason, probe.found());
}

}  // namespace

StepRecord sft_step(const StageContext& ctx, int64_t step) {
  const SftConfig& c = ctx.config.sft;
  std::vector<Sequence> sequences;
  int64_t tokens = 0;
  for (int64_t i = 0; i < c.batch_size; ++i) {
    const tasks::Problem& problem = ctx.problems.at(step * c.batch_size + i);
    sequences.push_back(encode_example(ctx.tokenizer, problem, ctx.config.max_length));
    tokens += sequences.back().response();
  }
  StepRecord record;
  const Position at{learn::Stage::sft, step};
  set_noise(ctx, at, {});
  double loss = 0;
  const auto scale = -1.0f / static_cast<float>(tokens);
  const Listening listening(ctx.engine.learner(), ctx.listener(diagnostics::Side::learner));
  StepResult result = ctx.engine.learner().accumulate(
      sequences, 1.0f, Learner::EntropyGradient::none,
      [&](const MicroBatch& m) {
        for (size_t i = 0; i < m.logp.size(); ++i) {
          loss -= static_cast<double>(m.logp[i]);
          m.dlogp[i] = scale;
        }
      },
      c.router_aux_loss_coef);
  record.metrics["loss"] = loss / static_cast<double>(tokens);
  if (!std::isfinite(loss)) stop(ctx, at, sequences, "the loss is not finite; the update was not applied");
  finish(ctx, at, {}, sequences, optimizer(ctx.config, learning_rate(c, step), c.weight_decay), result,
         record);
  return record;
}

namespace {

/// The version of the weights that step `step` samples with: the learner has finished `step` steps.
void choose_version(const StageContext& ctx, int64_t step, learn::Metrics& metrics) {
  const int64_t lag = std::min(step, ctx.config.rl.rollout_staleness);
  if (ctx.history != nullptr) ctx.engine.sample_at(*ctx.history, step - lag);
  metrics["rollout_weight_version"] = static_cast<double>(step - lag);
}

}  // namespace

StepRecord rl_step(const StageContext& ctx, learn::Stage stage, int64_t step) {
  StepRecord record;
  const auto start = std::chrono::steady_clock::now();
  choose_version(ctx, step, record.metrics);
  const Rollout rollout = [&] {
    const Span span(ctx.trace, "rollout");
    const Listening listening(ctx.engine.sampler(), ctx.listener(diagnostics::Side::sampler));
    return roll_out(ctx, stage, step, record);
  }();
  record.seconds["rollout"] = seconds_since(start);
  record.rollout = rollout_members(rollout);
  const Position at{stage, step};
  check_sampler(ctx, at, rollout);
  const Schedule s = schedule(ctx.config.rl);
  StepRouting routing(rollout, parse<RouterReplay>(ctx.config.rl.router_replay));
  const Scores scores = score(ctx, at, rollout, routing, record);
  for (int64_t i = 0; i < s.updates(); ++i) {
    const int64_t begin = i % s.mini_batches * s.responses;
    update_policy(ctx, at, {i, s.updates()}, rollout, scores, routing, begin, begin + s.responses, record);
  }
  routing.write(record.metrics);
  if (s.updates() > 1) whole_gap(rollout, scores, record.metrics);
  return record;
}

}  // namespace minite::rl
