#include "rl/stages.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/fail.h"
#include "tasks/checker.h"

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

/// Applies the update, quantizes the weights once and records what it took.
void finish(const StageContext& ctx, const Position& at, const std::vector<Sequence>& sequences,
            const OptimizerConfig& optimizer, StepResult& result, StepRecord& record) {
  try {
    ctx.engine.learner().apply(optimizer, at.step + 1, result);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::non_finite) throw;
    stop(ctx, at, sequences, error.what());
  }
  const auto start = std::chrono::steady_clock::now();
  record.metrics["weight_tensors_quantized"] = static_cast<double>(ctx.engine.synchronize());
  record.seconds["quantize"] = seconds_since(start);
  record.seconds["learner_forward"] += result.times.forward;
  record.seconds["backward"] = result.times.backward;
  record.seconds["optimizer"] = result.times.optimizer;
  record.metrics["grad_norm"] = result.grad_norm;
  record.metrics["lr"] = static_cast<double>(optimizer.lr);
  record.tokens += result.tokens;
}

/// Everything that one rollout produced, ragged by response.
struct Rollout {
  std::vector<const tasks::Problem*> problems;
  std::vector<Sample> samples;
  std::vector<Sequence> sequences;
  std::vector<int64_t> offsets = {0};
  std::vector<double> rewards, logp_sampler;
  std::vector<uint8_t> mask;
  int64_t prompt_tokens = 0;
};

Rollout sample(const StageContext& ctx, learn::Stage stage, int64_t step) {
  const RlConfig& c = ctx.config.rl;
  Rollout r;
  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < c.train_batch_size; ++i) {
    const tasks::Problem& problem = ctx.problems.at(step * c.train_batch_size + i);
    for (int64_t j = 0; j < c.n; ++j) {
      const auto id = static_cast<uint64_t>(stage) << 56 | static_cast<uint64_t>(step) << 24 |
                      static_cast<uint64_t>(i * c.n + j);
      requests.push_back({encode_prompt(ctx.tokenizer, problem), id});
      r.problems.push_back(&problem);
      r.prompt_tokens += static_cast<int64_t>(requests.back().prompt.size());
    }
  }
  SampleParams params;
  params.temperature = static_cast<float>(c.temperature);
  params.top_k = c.top_k;
  params.top_p = static_cast<float>(c.top_p);
  params.max_new_tokens = ctx.config.max_length;
  params.seed = ctx.config.seed;
  r.samples = ctx.engine.sampler().generate(requests, params);
  for (size_t i = 0; i < r.samples.size(); ++i) {
    const Sample& s = r.samples[i];
    Sequence sequence{std::move(requests[i].prompt), 0};
    sequence.prompt = static_cast<int64_t>(sequence.tokens.size());
    sequence.tokens.insert(sequence.tokens.end(), s.tokens.begin(), s.tokens.end());
    r.sequences.push_back(std::move(sequence));
    r.offsets.push_back(r.offsets.back() + static_cast<int64_t>(s.tokens.size()));
    r.logp_sampler.insert(r.logp_sampler.end(), s.logp.begin(), s.logp.end());
    // A response that ran out of room has no answer, whatever its text says.
    r.rewards.push_back(s.finished ? tasks::reward(*r.problems[i], ctx.tokenizer.decode(s.tokens)) : 0.0);
  }
  r.mask.assign(r.logp_sampler.size(), 1);
  return r;
}

void rollout_metrics(const Rollout& r, const RlConfig& c, learn::Metrics& metrics) {
  const auto n = static_cast<double>(r.samples.size());
  double reward = 0, finished = 0;
  int64_t mixed = 0;
  for (size_t i = 0; i < r.samples.size(); ++i) {
    reward += r.rewards[i];
    finished += r.samples[i].finished ? 1.0 : 0.0;
  }
  for (size_t group = 0; group < r.rewards.size(); group += static_cast<size_t>(c.n)) {
    const auto begin = r.rewards.begin() + static_cast<int64_t>(group);
    mixed += std::count(begin, begin + c.n, *begin) != c.n;
  }
  metrics["reward"] = reward / n;
  metrics["response_finished"] = finished / n;
  metrics["response_length_mean"] = static_cast<double>(r.offsets.back()) / n;
  metrics["groups_with_signal"] = static_cast<double>(mixed) / static_cast<double>(c.train_batch_size);
}

std::vector<double> widen(std::span<const float> x) { return {x.begin(), x.end()}; }

/// The loss side of one update. The learner's log-probs before the update come from its own forward pass at
/// the same weights; when one micro-batch holds the whole update, the training pass itself supplies them,
/// otherwise a scoring pass runs first.
class PolicyLoss {
 public:
  PolicyLoss(const Rollout& r, const LossConfig& config, std::span<const double> advantage, int64_t step)
      : config_(config), step_(step) {
    batch_.offsets = r.offsets;
    batch_.logp_sampler = r.logp_sampler;
    batch_.mask = r.mask;
    batch_.advantage = advantage;
  }

  void freeze(std::vector<double> logp_old) {
    logp_old_ = std::move(logp_old);
    batch_.logp_old = logp_old_;
    prepared_ = prepare(batch_, config_, step_);
    frozen_ = true;
  }

  void operator()(const MicroBatch& m) {
    if (!frozen_) freeze(widen(m.logp));
    const std::vector<double> logp = widen(m.logp), entropy = widen(m.entropy);
    std::vector<double> dlogp(logp.size()), dentropy(m.dentropy.size());
    evaluate(batch_, prepared_, m.begin, m.end, {logp, entropy}, {dlogp, dentropy}, sums_);
    std::copy(dlogp.begin(), dlogp.end(), m.dlogp.begin());
    std::copy(dentropy.begin(), dentropy.end(), m.dentropy.begin());
  }

  [[nodiscard]] std::vector<std::pair<std::string, double>> metrics() const {
    return rl::metrics(batch_, prepared_, sums_);
  }

 private:
  LossConfig config_;
  int64_t step_;
  Batch batch_;
  std::vector<double> logp_old_;
  Prepared prepared_;
  MetricSums sums_;
  bool frozen_ = false;
};

int64_t input_tokens(const std::vector<Sequence>& sequences) {
  int64_t tokens = 0;
  for (const Sequence& s : sequences) tokens += static_cast<int64_t>(s.tokens.size()) - 1;
  return tokens;
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
  double loss = 0;
  const auto scale = -1.0f / static_cast<float>(tokens);
  StepResult result = ctx.engine.learner().accumulate(sequences, 1.0f, Learner::EntropyGradient::none,
                                                      [&](const MicroBatch& m) {
                                                        for (size_t i = 0; i < m.logp.size(); ++i) {
                                                          loss -= static_cast<double>(m.logp[i]);
                                                          m.dlogp[i] = scale;
                                                        }
                                                      });
  record.metrics["loss"] = loss / static_cast<double>(tokens);
  const Position at{learn::Stage::sft, step};
  if (!std::isfinite(loss)) stop(ctx, at, sequences, "the loss is not finite; the update was not applied");
  finish(ctx, at, sequences, optimizer(ctx.config, learning_rate(c, step), c.weight_decay), result, record);
  return record;
}

StepRecord rl_step(const StageContext& ctx, learn::Stage stage, int64_t step) {
  const RlConfig& c = ctx.config.rl;
  StepRecord record;
  auto start = std::chrono::steady_clock::now();
  const Rollout rollout = sample(ctx, stage, step);
  record.seconds["rollout"] = seconds_since(start);
  record.tokens = rollout.prompt_tokens + rollout.offsets.back();
  rollout_metrics(rollout, c, record.metrics);

  std::vector<double> advantage(rollout.rewards.size()), per_token(rollout.mask.size());
  group_advantages(parse<AdvEstimator>(c.adv_estimator), c.n, rollout.rewards, advantage);
  broadcast_advantage(rollout.offsets, advantage, per_token);
  PolicyLoss loss(rollout, loss_config(c), per_token, step);
  Learner& learner = ctx.engine.learner();
  const auto temperature = static_cast<float>(c.temperature);
  const Position at{stage, step};
  StepResult result;
  try {
    if (input_tokens(rollout.sequences) > ctx.config.micro_tokens) {
      start = std::chrono::steady_clock::now();
      std::vector<float> logp(rollout.mask.size());
      learner.score(rollout.sequences, temperature, logp, {});
      loss.freeze(widen(logp));
      record.seconds["learner_forward"] = seconds_since(start);
    }
    const auto entropy =
        c.entropy_coeff != 0 ? Learner::EntropyGradient::wanted : Learner::EntropyGradient::none;
    result = learner.accumulate(rollout.sequences, temperature, entropy, std::ref(loss));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::non_finite) throw;
    stop(ctx, at, rollout.sequences, fmt::format("{}; the update was not applied", error.what()));
  }
  finish(ctx, at, rollout.sequences, optimizer(ctx.config, learning_rate(c, step), c.weight_decay), result,
         record);
  for (const auto& [name, value] : loss.metrics()) record.metrics[name] = value;
  return record;
}

}  // namespace minite::rl
