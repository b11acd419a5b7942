#include "sample/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"

namespace minite {

/// State of one generate() or score() call.
struct Sampler::Call {
  std::span<const SampleRequest> requests;
  const SampleParams& params;
  std::span<const std::vector<int32_t>> forced;  ///< responses by request; empty: tokens are chosen
  std::vector<Sample> samples;
  int64_t pending = 0;  ///< next request without a slot
  int64_t finished = 0;
  // The packed batch of the next forward pass.
  std::vector<int32_t> token, seq, pos;

  Call(std::span<const SampleRequest> all, const SampleParams& p,
       std::span<const std::vector<int32_t>> responses = {})
      : requests(all), params(p), forced(responses), samples(all.size()) {}

  /// Whether the response of `request`, which has tokens, ends here at the latest.
  [[nodiscard]] bool full(int64_t request) const {
    const auto count = static_cast<int64_t>(samples[request].tokens.size());
    return count == (forced.empty() ? params.max_new_tokens : static_cast<int64_t>(forced[request].size()));
  }
  void clear() {
    token.clear();
    seq.clear();
    pos.clear();
  }
  void push(int32_t t, int64_t slot, int64_t p) {
    token.push_back(t);
    seq.push_back(static_cast<int32_t>(slot));
    pos.push_back(static_cast<int32_t>(p));
  }
};

namespace {
int64_t blocks_of(int64_t positions) { return (positions + kKeyBlock - 1) / kKeyBlock; }

/// Log-probs and entropies of the scored rows; kept here because ops write into spans.
struct Choice {
  std::vector<int32_t> token, pos;
  std::vector<uint64_t> request;
  std::vector<float> logp, entropy;
  explicit Choice(size_t n) : token(n), pos(n), request(n), logp(n), entropy(n) {}
};
}  // namespace

Sampler::Sampler(const Network& network, const OpTable& table, ThreadPool& pool, const SamplerLimits& limits)
    : network_(&network), limits_(limits), slots_(static_cast<size_t>(limits.sequences)) {
  const ModelConfig& c = network.config();
  require(limits.sequences >= 1, "sampler: sequences={} must be positive", limits.sequences);
  require(limits.prefill_rows >= 1, "sampler: prefill_rows={} must be positive", limits.prefill_rows);
  require(limits.max_length >= 2, "sampler: max_length={} must hold a prompt and a response token",
          limits.max_length);
  require(limits.max_length <= c.max_position_embeddings,
          "sampler: max_length={} exceeds the model's max_position_embeddings={}", limits.max_length,
          c.max_position_embeddings);
  const int64_t blocks = blocks_of(limits.max_length);
  cache_ = Buffer(network.kv_bytes(limits.sequences * blocks));
  for (int64_t s = 0; s < limits.sequences; ++s) first_block_.push_back(s * blocks);
  // A forward pass holds at most prefill_rows prompt tokens, or one longer prompt, or one row a sequence.
  const int64_t rows = std::max({limits.prefill_rows, limits.max_length, limits.sequences});
  Arena measure;
  (void)network.place(measure, rows, limits.sequences, Keep::nothing);
  arena_ = Buffer(measure.peak());
  scratch_ = Buffer(network.scratch(rows, limits.max_length, pool.threads()));
  context_ = Context{&table, &pool, nullptr, {scratch_.data(), static_cast<size_t>(scratch_.size())}};
}

void Sampler::check(const SampleRequest& request, size_t index) const {
  require(!request.prompt.empty(), "sampler: prompt {} is empty", index);
  require(static_cast<int64_t>(request.prompt.size()) < limits_.max_length,
          "sampler: prompt {} has {} tokens and leaves no room for a response within max_length={}", index,
          request.prompt.size(), limits_.max_length);
}

void Sampler::check(const SampleRequest& request, std::span<const int32_t> response, size_t index) const {
  require(!response.empty(), "sampler: response {} is empty, there is nothing to score", index);
  require(static_cast<int64_t>(request.prompt.size() + response.size()) <= limits_.max_length,
          "sampler: prompt {} has {} tokens and its response {}, more than max_length={}", index,
          request.prompt.size(), response.size(), limits_.max_length);
  const int64_t vocabulary = network_->config().vocab_size;
  for (size_t t = 0; t < response.size(); ++t) {
    require(response[t] >= 0 && response[t] < vocabulary,
            "sampler: token {} of response {} is {}, outside the vocabulary [0, {})", t, index, response[t],
            vocabulary);
  }
}

void Sampler::check_routes(bool wanted) const {
  const int64_t experts = network_->config().num_experts;
  require(!wanted || experts > 0, "sampler: return_routed_experts needs a model with experts, num_experts={}",
          experts);
}

std::vector<Sample> Sampler::generate(std::span<const SampleRequest> requests, const SampleParams& params,
                                      const Progress& progress) {
  for (size_t i = 0; i < requests.size(); ++i) check(requests[i], i);
  check_routes(params.return_routed_experts);
  require(params.max_new_tokens > 0, "sampler: max_new_tokens={} must be positive", params.max_new_tokens);
  Call call(requests, params);
  return run_all(call, progress);
}

std::vector<Sample> Sampler::score(std::span<const SampleRequest> requests,
                                   std::span<const std::vector<int32_t>> responses, const ScoreParams& how,
                                   const Progress& progress) {
  require(requests.size() == responses.size(), "sampler: {} responses for {} prompts", responses.size(),
          requests.size());
  require(how.temperature > 0.0f && std::isfinite(how.temperature),
          "sampler: temperature={} must be positive to score tokens", how.temperature);
  check_routes(how.return_routed_experts);
  for (size_t i = 0; i < requests.size(); ++i) {
    check(requests[i], i);
    check(requests[i], responses[i], i);
  }
  SampleParams params;
  params.temperature = how.temperature;
  params.return_routed_experts = how.return_routed_experts;
  Call call(requests, params, responses);
  return run_all(call, progress);
}

std::vector<Sample> Sampler::run_all(Call& call, const Progress& progress) {
  const std::span<const SampleRequest> requests = call.requests;
  for (Sample& sample : call.samples) sample.weight_version = network_->weights().version();
  std::fill(slots_.begin(), slots_.end(), Slot{});
  kv_ = network_->kv_set(cache_.data(), limits_.sequences * blocks_of(limits_.max_length), first_block_);
  while (call.finished < static_cast<int64_t>(requests.size())) {
    std::vector<int64_t> fresh;
    int64_t rows = 0;
    for (size_t s = 0; s < slots_.size() && call.pending < static_cast<int64_t>(requests.size()); ++s) {
      if (slots_[s].request >= 0) continue;
      const auto length = static_cast<int64_t>(requests[call.pending].prompt.size());
      if (!fresh.empty() && rows + length > limits_.prefill_rows) break;
      rows += length;
      slots_[s].request = call.pending++;
      fresh.push_back(static_cast<int64_t>(s));
    }
    if (!fresh.empty()) {
      prefill(call, fresh);
    } else {
      decode(call);
    }
    if (progress) progress(call.finished);
  }
  return std::move(call.samples);
}

void Sampler::prefill(Call& call, const std::vector<int64_t>& slots) {
  call.clear();
  std::vector<int32_t> scored;
  for (const int64_t s : slots) {
    const auto& prompt = call.requests[slots_[s].request].prompt;
    for (size_t p = 0; p < prompt.size(); ++p) call.push(prompt[p], s, static_cast<int64_t>(p));
    slots_[s].length = static_cast<int64_t>(prompt.size());
    scored.push_back(static_cast<int32_t>(call.token.size()) - 1);
  }
  run(call, scored, slots);
}

void Sampler::decode(Call& call) {
  call.clear();
  std::vector<int32_t> scored;
  std::vector<int64_t> slots;
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].request < 0) continue;
    scored.push_back(static_cast<int32_t>(scored.size()));
    slots.push_back(static_cast<int64_t>(s));
    call.push(slots_[s].next, slots.back(), slots_[s].length++);
  }
  run(call, scored, slots);
}

void Sampler::announce(const Call& call) const {
  if (context_.probe == nullptr) return;
  std::vector<int64_t> request;
  for (const int32_t s : call.seq) request.push_back(slots_[s].request);
  context_.probe->batch({call.token, call.pos, request});
}

void Sampler::run(Call& call, const std::vector<int32_t>& scored, const std::vector<int64_t>& slots) {
  const auto n = static_cast<int64_t>(scored.size());
  Arena arena(arena_);
  Activations act = network_->place(arena, static_cast<int64_t>(call.token.size()), n, Keep::nothing);
  const Rows rows{call.token, call.seq, call.pos};
  RouteBuffer routes(network_->config(), rows.size(), {false, call.params.return_routed_experts, false});
  announce(call);
  const TensorView hidden = network_->forward(context_, rows, kv_, act, routes.tape());
  if (call.params.return_routed_experts) keep_routes(call, routes);
  network_->gather(context_, hidden, scored, act);
  Choice choice(scored.size());
  for (size_t i = 0; i < scored.size(); ++i) {
    choice.request[i] = call.requests[slots_[slots[i]].request].id;
    choice.pos[i] = static_cast<int32_t>(slots_[slots[i]].length);
  }
  const SampleParams& p = call.params;
  const float temperature = p.temperature > 0.0f ? p.temperature : 1.0f;
  for (int64_t begin = 0; begin < n; begin += Network::kLogitRows) {
    const int64_t count = std::min(Network::kLogitRows, n - begin);
    const TensorView logits = network_->logits(context_, act, begin, count);
    const std::span<int32_t> token(choice.token.data() + begin, static_cast<size_t>(count));
    const auto part = std::span(slots).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    if (call.forced.empty()) {
      ops::choose(context_, {logits,
                             p.temperature,
                             p.top_k,
                             p.top_p,
                             p.seed,
                             {choice.request.data() + begin, static_cast<size_t>(count)},
                             {choice.pos.data() + begin, static_cast<size_t>(count)},
                             token});
    } else {
      force(call, part, token);
    }
    ops::logprob(context_, {logits,
                            token,
                            temperature,
                            {choice.logp.data() + begin, 1, count},
                            {choice.entropy.data() + begin, 1, count},
                            {}});
  }
  for (size_t i = 0; i < slots.size(); ++i)
    accept(call, slots[i], choice.token[i], choice.logp[i], choice.entropy[i]);
}

void Sampler::force(const Call& call, std::span<const int64_t> slots, std::span<int32_t> token) const {
  for (size_t i = 0; i < slots.size(); ++i) {
    const int64_t request = slots_[slots[i]].request;
    token[i] = call.forced[request][call.samples[request].tokens.size()];
  }
}

void Sampler::keep_routes(Call& call, const RouteBuffer& routes) const {
  const ModelConfig& c = network_->config();
  for (size_t row = 0; row < call.token.size(); ++row) {
    Routes& to = call.samples[slots_[call.seq[row]].request].routes;
    const int64_t tokens = call.pos[row] + 1;
    to.layers = c.num_hidden_layers, to.top_k = c.num_experts_per_tok;
    to.expert.resize(static_cast<size_t>((tokens + 1) * to.layers * to.top_k), -1);
    routes.get_used(static_cast<int64_t>(row), to, tokens - 1);
  }
}

void Sampler::accept(Call& call, int64_t s, int32_t token, float logp, float entropy) {
  Slot& slot = slots_[s];
  Sample& sample = call.samples[slot.request];
  sample.tokens.push_back(token);
  sample.logp.push_back(logp);
  sample.entropy.push_back(entropy);
  slot.next = token;
  sample.finished = network_->config().ends_sequence(token);
  const bool ended = sample.finished && call.forced.empty();
  if (!ended && !call.full(slot.request) && slot.length + 1 < limits_.max_length) return;
  slot = Slot{};
  ++call.finished;
}

}  // namespace minite
