#pragma once
// The sampler: prefill and decode over the same forward as the learner, with a key/value cache.
#include <cstdint>
#include <functional>
#include <vector>

#include "model/network.h"

namespace minite {

/// How tokens are chosen; part of the semantic contract of a rollout.
struct SampleParams {
  float temperature = 1.0f;  ///< 0: greedy
  int64_t top_k = 0;         ///< 0: all
  float top_p = 1.0f;
  int64_t max_new_tokens = 64;
  uint64_t seed = 0;
  bool return_routed_experts = false;  ///< record Sample::routes; with experts only
};

struct SampleRequest {
  std::vector<int32_t> prompt;  ///< at least one token
  uint64_t id = 0;              ///< keys the noise: the same (seed, id, position) gives the same draw
};

/// One response. `logp[t]` is the log-probability of tokens[t] under the full softmax at the sampling
/// temperature (1 when greedy), as the decode step that chose it computed it.
struct Sample {
  std::vector<int32_t> tokens;
  std::vector<float> logp;
  std::vector<float> entropy;
  bool finished = false;       ///< ended by an end-of-sequence token, which is the last of `tokens`
  int64_t weight_version = 0;  ///< version of the weights that produced every token
  /// Experts of prompt and response as prefill and decode took them, one row a token, with weights; the last
  /// token was never read, its row is -1. Empty unless wanted.
  Routes routes;
};

/// What score() does besides reading tokens; made of a temperature where that is all.
struct ScoreParams {
  float temperature = 1.0f;
  bool return_routed_experts = false;  ///< record Sample::routes; with experts only

  ScoreParams(float t, bool routes = false) : temperature(t), return_routed_experts(routes) {}
};

/// Sizes of a sampler's memory.
struct SamplerLimits {
  int64_t sequences = 128;      ///< sequences decoded together
  int64_t max_length = 128;     ///< prompt plus response
  int64_t prefill_rows = 4096;  ///< prompt tokens of one forward pass
};

class Sampler {
 public:
  /// `network` must outlive the sampler; its weights may change between calls, never inside one.
  Sampler(const Network& network, const OpTable& table, ThreadPool& pool, const SamplerLimits& limits);

  /// Called after every decode step with the number of finished requests.
  using Progress = std::function<void(int64_t finished)>;

  /// Samples a response to every request, in the order of `requests`. Requests beyond the limit wait for a
  /// free slot; the results do not depend on it. Throws invalid_argument for an empty prompt or one that
  /// leaves no room for a token.
  std::vector<Sample> generate(std::span<const SampleRequest> requests, const SampleParams& params,
                               const Progress& progress = {});

  /// Teacher forcing: the log-prob and entropy of every given token, as generate() would have computed them
  /// had it drawn these tokens, by the same prefill and decode passes. `responses[i]`, at least one token,
  /// goes on from requests[i].prompt; an <eos> inside does not end it. Sample::finished says whether the last
  /// token is <eos>. Throws invalid_argument for a prompt or response that is empty or does not fit, and for
  /// a token outside the vocabulary.
  std::vector<Sample> score(std::span<const SampleRequest> requests,
                            std::span<const std::vector<int32_t>> responses, const ScoreParams& params,
                            const Progress& progress = {});

  /// Listens to every forward pass; null: nobody.
  void set_probe(Probe* probe) { context_.probe = probe; }

 private:
  struct Slot {
    int64_t request = -1;  ///< -1: free
    int64_t length = 0;    ///< tokens in the cache
    int32_t next = 0;      ///< token to feed
  };
  struct Call;
  std::vector<Sample> run_all(Call& call, const Progress& progress);
  void prefill(Call& call, const std::vector<int64_t>& slots);
  void decode(Call& call);
  void run(Call& call, const std::vector<int32_t>& scored, const std::vector<int64_t>& slots);
  void announce(const Call& call) const;
  void keep_routes(Call& call, const RouteBuffer& routes) const;
  void accept(Call& call, int64_t slot, int32_t token, float logp, float entropy);
  void check_routes(bool wanted) const;
  void check(const SampleRequest& request, size_t index) const;
  void check(const SampleRequest& request, std::span<const int32_t> response, size_t index) const;
  /// The given tokens that the slots come to next.
  void force(const Call& call, std::span<const int64_t> slots, std::span<int32_t> token) const;

  const Network* network_;
  Context context_;
  SamplerLimits limits_;
  Buffer cache_, arena_, scratch_;
  std::vector<int64_t> first_block_;
  KvSet kv_;  ///< of the running call: scales may change with the weights
  std::vector<Slot> slots_;
};

}  // namespace minite
