#include "learn/learner.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/fail.h"
#include "core/philox.h"
#include "learn/non_finite.h"

namespace minite {
namespace {

int64_t blocks_of(int64_t positions) { return (positions + kKeyBlock - 1) / kKeyBlock; }

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Listens with another probe for the life of the object, which an error may end.
class ProbeFor {
 public:
  ProbeFor(Context& context, Probe* probe) : context_(context), before_(context.probe) {
    context_.probe = probe;
  }
  ~ProbeFor() { context_.probe = before_; }
  ProbeFor(const ProbeFor&) = delete;
  ProbeFor& operator=(const ProbeFor&) = delete;

 private:
  Context& context_;
  Probe* before_;
};

/// Response tokens of all sequences; a sequence that micro_end() will refuse counts as none.
size_t response_tokens(std::span<const Sequence> sequences) {
  size_t count = 0;
  for (const Sequence& s : sequences) count += static_cast<size_t>(std::max<int64_t>(0, s.response()));
  return count;
}

/// Tokens that a forward pass over all sequences reads: the last of each is a target only.
int64_t input_tokens(std::span<const Sequence> sequences) {
  int64_t count = 0;
  for (const Sequence& s : sequences) count += static_cast<int64_t>(s.tokens.size()) - 1;
  return count;
}

void check_limits(const LearnerLimits& limits, const ModelConfig& config) {
  require(limits.micro_tokens >= 1, "learner: micro_tokens={} must be positive", limits.micro_tokens);
  require(limits.max_length >= 1 && limits.max_length <= config.max_position_embeddings,
          "learner: max_length={} must be between 1 and the model's max_position_embeddings={}",
          limits.max_length, config.max_position_embeddings);
}

}  // namespace

/// A micro-batch laid out for one forward pass. The last token of a sequence is a target only.
struct Learner::Packed {
  std::vector<int32_t> token, seq, pos, scored, target;
  std::vector<int64_t> first_block;
  std::vector<float> logp, entropy, lse, dlogp, dentropy;

  explicit Packed(std::span<const Sequence> sequences) {
    int64_t block = 0;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const Sequence& sequence = sequences[s];
      const auto inputs = static_cast<int64_t>(sequence.tokens.size()) - 1;
      first_block.push_back(block);
      block += blocks_of(inputs);
      for (int64_t p = 0; p < inputs; ++p) {
        if (p + 1 >= sequence.prompt) {
          scored.push_back(static_cast<int32_t>(token.size()));
          target.push_back(sequence.tokens[p + 1]);
        }
        token.push_back(sequence.tokens[p]);
        seq.push_back(static_cast<int32_t>(s));
        pos.push_back(static_cast<int32_t>(p));
      }
    }
    const size_t n = scored.size();
    logp.resize(n), entropy.resize(n), lse.resize(n), dlogp.resize(n), dentropy.resize(n);
  }
  [[nodiscard]] Rows rows() const { return {token, seq, pos}; }
  [[nodiscard]] static TensorView view(const std::vector<float>& x) {
    return {const_cast<float*>(x.data()), 1, static_cast<int64_t>(x.size())};
  }
};

Learner::Learner(Weights& weights, const Network& network, const OpTable& table, ThreadPool& pool,
                 const LearnerLimits& limits)
    : weights_(&weights), network_(&network), limits_(limits) {
  check_limits(limits, network.config());
  const int64_t rows = limits.micro_tokens;
  // A micro-batch of T rows has at most T sequences of one row: T blocks; longer sequences need fewer.
  const int64_t blocks = rows / 2 + blocks_of(rows) + 1;
  cache_ = Buffer(network.kv_bytes(blocks));
  Arena measure;
  (void)network.place(measure, rows, rows, Keep::for_backward);
  temp_bytes_ = network.backward_bytes(rows, rows);
  arena_ = Buffer(measure.peak() + temp_bytes_);
  scratch_ = Buffer(network.scratch(rows, limits.max_length, pool.threads()));
  context_ = Context{&table, &pool, nullptr, {scratch_.data(), static_cast<size_t>(scratch_.size())}};
}

int64_t Learner::micro_end(std::span<const Sequence> sequences, int64_t begin) const {
  int64_t tokens = 0;
  auto end = begin;
  for (; end < static_cast<int64_t>(sequences.size()); ++end) {
    const Sequence& s = sequences[end];
    const auto length = static_cast<int64_t>(s.tokens.size()) - 1;
    require(s.prompt >= 1 && s.response() >= 1,
            "learner: sequence {} has {} prompt and {} response tokens; both need one", end, s.prompt,
            s.response());
    require(length <= limits_.max_length && length <= limits_.micro_tokens,
            "learner: sequence {} has {} tokens, more than max_length={} or micro_tokens={}", end, length + 1,
            limits_.max_length, limits_.micro_tokens);
    if (tokens + length > limits_.micro_tokens) break;
    tokens += length;
  }
  return end;
}

void Learner::start_routes(std::span<const Sequence> sequences, const Routing& routing) const {
  const auto check_count = [&](std::string_view name, size_t count) {
    require(count == 0 || (count == sequences.size() && network_->config().num_experts > 0),
            "learner: {} routes {} for {} sequences of a model with num_experts={}", count, name,
            sequences.size(), network_->config().num_experts);
  };
  check_count("out (used)", routing.used.size());
  check_count("out (live)", routing.live.size());
  const ModelConfig& c = network_->config();
  for (const std::span<Routes> out : {routing.used, routing.live}) {
    for (size_t i = 0; i < out.size(); ++i) {
      const auto tokens = static_cast<int64_t>(sequences[i].tokens.size());
      out[i] = Routes(tokens, c.num_hidden_layers, c.num_experts_per_tok);
    }
  }
  if (routing.replay.empty()) return;
  std::vector<int64_t> tokens;
  for (const Sequence& s : sequences) tokens.push_back(static_cast<int64_t>(s.tokens.size()));
  validate_routes(routing.replay, tokens, network_->config());
}

void Learner::announce(const Packed& batch, int64_t first) const {
  if (context_.probe == nullptr) return;
  std::vector<int64_t> request;
  for (const int32_t s : batch.seq) request.push_back(first + s);
  context_.probe->batch({batch.token, batch.pos, request});
}

/// `first` is the place of the batch's first sequence in the lists of `routing`.
void Learner::forward(const Packed& batch, int64_t first, const Routing& routing, Activations& act,
                      float temperature) {
  const int64_t blocks = batch.first_block.back() + blocks_of(batch.pos.back() + 1);
  if (network_->kv_bytes(blocks) > cache_.size()) cache_ = Buffer(network_->kv_bytes(blocks));
  const KvSet kv = network_->kv_set(cache_.data(), blocks, batch.first_block);
  const auto rows = static_cast<int64_t>(batch.token.size());
  RouteBuffer routes(network_->config(), rows,
                     {!routing.replay.empty(), !routing.used.empty(), !routing.live.empty()});
  const auto each = [&](std::span<const Routes> wanted, const auto& visit) {
    for (int64_t r = 0; r < (wanted.empty() ? 0 : rows); ++r) visit(r, first + batch.seq[r], batch.pos[r]);
  };
  each(routing.replay, [&](int64_t r, int64_t s, int64_t t) { routes.set(r, routing.replay[s], t); });
  announce(batch, first);
  const TensorView hidden = network_->forward(context_, batch.rows(), kv, act, routes.tape());
  each(routing.used, [&](int64_t r, int64_t s, int64_t t) { routes.get_used(r, routing.used[s], t); });
  each(routing.live, [&](int64_t r, int64_t s, int64_t t) { routes.get_live(r, routing.live[s], t); });
  network_->gather(context_, hidden, batch.scored, act);
  const auto n = static_cast<int64_t>(batch.scored.size());
  const auto part = [&](const std::vector<float>& x, int64_t begin, int64_t count) {
    return Packed::view(x).slice_cols(begin, count);
  };
  for (int64_t begin = 0; begin < n; begin += Network::kLogitRows) {
    const int64_t count = std::min(Network::kLogitRows, n - begin);
    const std::span<const int32_t> target(batch.target.data() + begin, static_cast<size_t>(count));
    ops::logprob(context_, {network_->logits(context_, act, begin, count), target, temperature,
                            part(batch.logp, begin, count), part(batch.entropy, begin, count),
                            part(batch.lse, begin, count)});
  }
}

void Learner::score(std::span<const Sequence> sequences, float temperature, std::span<float> logp,
                    std::span<float> entropy, const Routing& routing) {
  start_routes(sequences, routing);
  const size_t count = response_tokens(sequences);
  require(logp.size() == count, "learner: logp has {} entries for {} response tokens", logp.size(), count);
  require(entropy.empty() || entropy.size() == count,
          "learner: entropy has {} entries for {} response tokens", entropy.size(), count);
  int64_t at = 0;
  for (int64_t begin = 0; begin < static_cast<int64_t>(sequences.size());) {
    const int64_t end = micro_end(sequences, begin);
    const Packed batch(sequences.subspan(begin, end - begin));
    Arena arena(arena_);
    Activations act = network_->place(arena, static_cast<int64_t>(batch.token.size()),
                                      static_cast<int64_t>(batch.scored.size()), Keep::nothing);
    forward(batch, begin, routing, act, temperature);
    std::copy(batch.logp.begin(), batch.logp.end(), logp.begin() + at);
    if (!entropy.empty()) std::copy(batch.entropy.begin(), batch.entropy.end(), entropy.begin() + at);
    at += static_cast<int64_t>(batch.logp.size());
    begin = end;
  }
}

void Learner::add_router_stats(const Activations& act, double share, RouterStats& stats) const {
  const ModelConfig& c = network_->config();
  if (c.num_experts == 0) return;
  stats.experts = c.num_experts;
  stats.load.resize(static_cast<size_t>(c.num_hidden_layers * c.num_experts));
  double sum = 0;
  auto load = stats.load.begin();
  for (const LayerActivations& layer : act.layers) {
    const Groups groups = layer.mlp.router.groups();
    for (int64_t e = 0; e < c.num_experts; ++e) *load++ += groups.rows(e);
    sum += ops::router_balance(context_, layer.mlp.router.prob, groups);
  }
  stats.aux_loss += share * sum / static_cast<double>(c.num_hidden_layers);
}

StepResult Learner::accumulate(std::span<const Sequence> sequences, float temperature,
                               EntropyGradient entropy, const Gradient& gradient, double router_aux_loss_coef,
                               const Routing& routing) {
  start_routes(sequences, routing);
  StepResult result;
  const auto all_inputs = static_cast<double>(input_tokens(sequences));
  weights_->zero_gradients();
  Stopwatch watch;
  for (int64_t begin = 0; begin < static_cast<int64_t>(sequences.size());) {
    const int64_t end = micro_end(sequences, begin);
    Packed batch(sequences.subspan(begin, end - begin));
    Arena arena(arena_);
    Activations act = network_->place(arena, static_cast<int64_t>(batch.token.size()),
                                      static_cast<int64_t>(batch.scored.size()), Keep::for_backward);
    {
      const Span span(trace_, "learner_forward");
      forward(batch, begin, routing, act, temperature);
    }
    result.times.forward += watch.lap();
    const double share = static_cast<double>(batch.token.size()) / all_inputs;
    add_router_stats(act, share, result.router);
    const auto layers = static_cast<double>(network_->config().num_hidden_layers);
    const bool wanted = entropy == EntropyGradient::wanted;
    gradient({begin, end, batch.logp, batch.entropy, batch.dlogp,
              wanted ? std::span<float>(batch.dentropy) : std::span<float>()});
    const auto random = Philox::generate(noise_, static_cast<uint64_t>(begin), 0);
    context_.noise = uint64_t{random[1]} << 32 | random[0];
    const Span span(trace_, "backward");
    network_->backward(
        context_, arena, batch.rows(), act,
        {batch.scored, batch.target, temperature, Packed::view(batch.lse), Packed::view(batch.entropy),
         Packed::view(batch.dlogp), wanted ? Packed::view(batch.dentropy) : TensorView{},
         static_cast<float>(router_aux_loss_coef * share / layers)});
    result.times.backward += watch.lap();
    result.tokens += static_cast<int64_t>(batch.token.size());
    begin = end;
  }
  return result;
}

void Learner::apply(const OptimizerConfig& config, int64_t update, StepResult& result) {
  Stopwatch watch;
  double sum = 0;
  std::string bad;  // the last one: backward reaches it first
  for (const Parameter& p : weights_->parameters()) {
    const double part = ops::sum_squares(context_, p.grad);
    if (!std::isfinite(part)) bad = p.spec.name;
    sum += part;
  }
  if (!bad.empty()) {
    fail(ErrorCode::non_finite, "update {}: the gradient of {} is not finite; the update was not applied",
         update, bad);
  }
  result.grad_norm = std::sqrt(sum);
  result.clip_scale = static_cast<float>(
      std::min(1.0, static_cast<double>(config.max_grad_norm) / (result.grad_norm + 1e-6)));
  for (const Parameter& p : weights_->parameters()) {
    AdamWArgs args{p.master, p.m, p.v, p.grad, p.weight};
    args.grad_scale = result.clip_scale;
    args.lr = config.lr;
    args.beta1 = config.beta1;
    args.beta2 = config.beta2;
    args.eps = config.eps;
    args.weight_decay = p.spec.rows > 1 ? config.weight_decay : 0.0f;
    args.step = update;
    ops::adamw(context_, args);
  }
  weights_->bump_version();
  result.times.optimizer += watch.lap();
}

std::string Learner::locate_non_finite(std::span<const Sequence> sequences) {
  NonFiniteProbe probe;
  {
    const ProbeFor listening(context_, &probe);
    std::vector<float> logp(response_tokens(sequences));
    score(sequences, 1.0f, logp, {});
  }
  for (const Parameter& p : weights_->parameters()) probe.value({-1, "weight of " + p.spec.name}, p.weight);
  return probe.found();
}

}  // namespace minite
