#include "rl/capture_run.h"

#include <algorithm>

#include "core/fail.h"
#include "learn/checkpoint.h"
#include "rl/engine.h"

namespace minite::rl {
namespace {

constexpr int64_t kPrefillRows = 4096;

struct Scores {
  std::vector<float> logp, entropy;
};

class CaptureRun {
 public:
  CaptureRun(const CaptureInput& input, const CaptureOptions& options, const CaptureTokens& tokens)
      : input_(input),
        options_(options),
        tokens_(tokens),
        policy_(input.config.sampler_policy),
        routes_(tokens.routes) {
    const int64_t room = model().max_position_embeddings;
    for (const FaultId id : options.faults) check_fault(site(id), model());
    for (const SampleRequest& r : tokens.requests)
      longest_ = std::max(longest_, static_cast<int64_t>(r.prompt.size()));
    if (tokens.responses.empty()) {
      max_length_ = std::min(room, longest_ + options.draw.max_new_tokens);
      return;
    }
    for (size_t i = 0; i < tokens.requests.size(); ++i) {
      max_length_ = std::max(
          max_length_, static_cast<int64_t>(tokens.requests[i].prompt.size() + tokens.responses[i].size()));
    }
  }

  CaptureResult finish(Probe& probe) {
    std::vector<ResolvedLinear> modules = resolve_side(model(), input_.config, options_.recipe);
    const WeightDigests promised = weight_digests(input_.weights);
    result_.version_in_use = options_.weight_version;
    KvFormat kv = options_.kv;
    // Stale weights first: they replace what another fault would have changed.
    if (has(FaultId::stale_weights)) make_stale();
    for (const FaultId id : options_.faults) {
      alter_modules(site(id), modules);
      alter_weights(site(id), input_.weights);
      alter_routes(site(id), routes_);
    }
    if (has(FaultId::kv_fp8)) kv = KvFormat::fp8;
    if (has(FaultId::per_tensor_scale)) policy_ = "fastest";
    WeightCache cache(input_.weights);
    const Network network(input_.weights, cache, modules, input_.table, Policy::parse(policy_), kv);
    cache.refresh(Context{&input_.table, &input_.pool, nullptr, {}});
    spoil_codes(modules, cache);
    score(network, probe);
    result_.plans = network.plans();
    result_.in_use = weight_digests(input_.weights);
    result_.contract = numeric_contract(options_.recipe, modules, kv, policy_);
    result_.contract.temperature = as_written(options_.draw.temperature);
    result_.contract.replay = name_of(options_.replay);
    result_.contract.top_k = options_.draw.top_k;
    result_.contract.top_p = as_written(options_.draw.top_p);
    result_.contract.weight_version = options_.weight_version;
    result_.contract.weights_digest = digest_of(promised);
    return std::move(result_);
  }

 private:
  [[nodiscard]] const ModelConfig& model() const { return input_.weights.config(); }
  [[nodiscard]] FaultSite site(FaultId id) const {
    return {id, options_.fault_layer, options_.draw.temperature, options_.kv, !tokens_.routes.empty()};
  }
  [[nodiscard]] bool has(FaultId id) const { return std::ranges::count(options_.faults, id) > 0; }
  /// Log-probs are at 1 when drawing is greedy, as the sampler records them.
  [[nodiscard]] float temperature() const {
    return options_.draw.temperature > 0 ? options_.draw.temperature : 1.0f;
  }

  void spoil_codes(const std::vector<ResolvedLinear>& modules, WeightCache& cache) const {
    const std::string name = fmt::format("layers.{}.experts.gate_up", options_.fault_layer);
    if (!has(FaultId::expert_scale)) return;
    for (const ResolvedLinear& m : modules) {
      if (m.module.name == name) alter_codes(site(FaultId::expert_scale), m.params, cache);
    }
  }

  /// Another version of the weights: the checkpoint before, or one AdamW update on the prompts.
  void make_stale() {
    Weights& weights = input_.weights;
    if (!options_.earlier.empty()) {
      load_model(options_.earlier, weights);
      weights.bump_version();
      result_.version_in_use = options_.earlier_version;
      return;
    }
    for (const Parameter& p : weights.parameters()) {
      for (const TensorView& moment : {p.m, p.v}) std::fill_n(moment.as<float>(), moment.size(), 0.0f);
    }
    WeightCache cache(weights);
    const auto network =
        make_network(weights, cache, input_.config, options_.recipe, options_.kv, input_.table);
    Learner learner(weights, *network, input_.table, input_.pool, limits(longest_));
    cache.refresh(learner.context());
    std::vector<Sequence> prompts;
    for (const SampleRequest& r : tokens_.requests) {
      if (r.prompt.size() > 1) prompts.push_back({r.prompt, 1});
    }
    require(!prompts.empty(), "--inject stale-weights learns the prompts, but none has two tokens");
    StepResult step =
        learner.accumulate(prompts, 1.0f, Learner::EntropyGradient::none,
                           [](const MicroBatch& batch) { std::ranges::fill(batch.dlogp, -1.0f); });
    learner.apply({}, 1, step);
    ++result_.version_in_use;
  }

  [[nodiscard]] LearnerLimits limits(int64_t length) const {
    return {std::max(length, std::min(input_.config.micro_tokens,
                                      length * static_cast<int64_t>(tokens_.requests.size()))),
            length};
  }

  void keep(const std::vector<Sample>& samples) {
    for (size_t i = 0; i < samples.size(); ++i) {
      const std::vector<int32_t>& prompt = tokens_.requests[i].prompt;
      Sequence s{prompt, static_cast<int64_t>(prompt.size())};
      s.tokens.insert(s.tokens.end(), samples[i].tokens.begin(), samples[i].tokens.end());
      result_.sequences.push_back(std::move(s));
    }
  }

  static Scores scores_of(const std::vector<Sample>& samples) {
    Scores all;
    for (const Sample& s : samples) {
      all.logp.insert(all.logp.end(), s.logp.begin(), s.logp.end());
      all.entropy.insert(all.entropy.end(), s.entropy.begin(), s.entropy.end());
    }
    return all;
  }

  void score(const Network& network, Probe& probe) {
    if (options_.role == Role::learner) {
      run_learner(network, probe);
    } else {
      run_sampler(network, probe);
    }
  }

  void run_sampler(const Network& network, Probe& probe) {
    const auto slots =
        std::min<int64_t>(input_.config.sampler_sequences, static_cast<int64_t>(tokens_.requests.size()));
    Sampler sampler(network, input_.table, input_.pool, {slots, max_length_, kPrefillRows});
    const auto forced = [&](const std::vector<std::vector<int32_t>>& responses, float t) {
      return sampler.score(tokens_.requests, responses, t);
    };
    sampler.set_probe(&probe);
    const std::vector<Sample> samples = tokens_.responses.empty()
                                            ? sampler.generate(tokens_.requests, options_.draw)
                                            : forced(tokens_.responses, temperature());
    sampler.set_probe(nullptr);
    keep(samples);
    std::vector<std::vector<int32_t>> responses;
    for (const Sample& s : samples) responses.push_back(s.tokens);
    report(scores_of(samples), [&] { return scores_of(forced(responses, 1.0f)); });
  }

  void run_learner(const Network& network, Probe& probe) {
    require(!tokens_.responses.empty(),
            "a learner scores given tokens: add --tokens DIR, the capture of a sampler");
    std::vector<Sample> given(tokens_.responses.size());
    size_t count = 0;
    for (size_t i = 0; i < given.size(); ++i) {
      given[i].tokens = tokens_.responses[i];
      count += given[i].tokens.size();
    }
    keep(given);
    Learner learner(input_.weights, network, input_.table, input_.pool, limits(max_length_));
    std::vector<Routes> live(routes_.size());
    const auto at = [&](float t) {
      Scores s{std::vector<float>(count), std::vector<float>(count)};
      learner.score(result_.sequences, t, s.logp, s.entropy, {routes_, {}, live});
      return s;
    };
    learner.set_probe(&probe);
    const Scores scores = at(temperature());
    learner.set_probe(nullptr);
    if (!live.empty()) result_.replayed.emplace();
    for (size_t i = 0; i < live.size(); ++i) *result_.replayed += compare_routes(live[i], routes_[i]);
    report(scores, [&] { return at(1.0f); });
  }

  /// Keeps what the side says its log-probs are; `at_1` scores at temperature 1.
  template <class At>
  void report(Scores scores, const At& at_1) {
    if (has(FaultId::temperature_after_softmax)) {
      scores = at_1();
      for (float& logp : scores.logp) logp /= temperature();
    }
    if (has(FaultId::shift)) {
      auto end = scores.logp.end();
      for (auto s = result_.sequences.rbegin(); s != result_.sequences.rend(); ++s) {
        const auto begin = end - s->response();
        std::move_backward(begin, end - 1, end);  // the first keeps its own
        end = begin;
      }
    }
    result_.logp = std::move(scores.logp);
    result_.entropy = std::move(scores.entropy);
  }

  const CaptureInput& input_;
  const CaptureOptions& options_;
  const CaptureTokens& tokens_;
  std::string policy_;
  std::vector<Routes> routes_;  ///< that are replayed, with what a fault did to them
  int64_t longest_ = 0, max_length_ = 0;
  CaptureResult result_;
};

}  // namespace

CaptureResult run_capture(const CaptureInput& input, const CaptureOptions& options,
                          const CaptureTokens& tokens, Probe& probe) {
  require(!tokens.requests.empty(), "capture: there is no prompt");
  require(tokens.responses.empty() || tokens.responses.size() == tokens.requests.size(),
          "capture: {} responses for {} prompts", tokens.responses.size(), tokens.requests.size());
  require(tokens.routes.empty() ||
              (options.role == Role::learner && tokens.routes.size() == tokens.requests.size()),
          "capture: {} recorded routes for {} prompts; a learner replays one a prompt", tokens.routes.size(),
          tokens.requests.size());
  return CaptureRun(input, options, tokens).finish(probe);
}

}  // namespace minite::rl
