#pragma once
// One set of weights with a learner and a sampler on it, each with its recipe.
#include <filesystem>
#include <memory>

#include "learn/learner.h"
#include "learn/weight_history.h"
#include "minite/recipe.h"
#include "rl/contract.h"
#include "rl/run_config.h"
#include "sample/sampler.h"

namespace minite::rl {

/// Recipes of the two sides of one stage.
struct Sides {
  std::string learner_recipe, sampler_recipe;
};

/// What `recipe` and the rules of `config` make of each linear layer. Throws as resolve().
[[nodiscard]] std::vector<ResolvedLinear> resolve_side(const ModelConfig& model, const RunConfig& config,
                                                       const std::string& recipe);
/// The network of one side: resolve_side() planned on `table` under config.sampler_policy, its weights in
/// `cache`. Throws as resolve() and Network.
[[nodiscard]] std::unique_ptr<Network> make_network(const Weights& weights, WeightCache& cache,
                                                    const RunConfig& config, const std::string& recipe,
                                                    KvFormat kv, const OpTable& table);

class Engine {
 public:
  /// Both sides read the same quantized weights where their recipes agree. Throws as resolve() and Network.
  Engine(Weights& weights, const RunConfig& config, const Sides& sides, const OpTable& table,
         ThreadPool& pool);

  [[nodiscard]] Learner& learner() { return *learner_; }
  [[nodiscard]] Sampler& sampler() { return *sampler_; }
  [[nodiscard]] const ModelConfig& model() const { return learner_network_->config(); }
  /// Gives the sampler the weights of `version`; only with rl.rollout_staleness, which needs it before every
  /// rollout.
  void sample_at(const learn::WeightHistory& history, int64_t version);
  /// Quantizes the weights when they changed; returns how many tensors were quantized. Both sides see it.
  int64_t synchronize() { return cache_.refresh(learner_->context()); }
  /// The contract of what the sampler draws now: its numerics and its weights, whose version is that of the
  /// last sample_at(), else `learner_version`. Drawing and replay are the caller's.
  [[nodiscard]] io::Contract sampler_contract(int64_t learner_version) const;
  /// The plans of both sides in words, for the record.
  [[nodiscard]] std::vector<std::string> plans() const;

 private:
  /// The sampler's own weights, when they are not the learner's.
  struct Lagging {
    Weights weights;
    WeightCache cache;
    std::unique_ptr<Network> network;
    int64_t version = -1;
    explicit Lagging(const Weights& current)
        : weights(current.config(), DType::bf16, Purpose::inference), cache(weights) {
      weights.set_kv_scales(current.kv_scales());
    }
  };
  [[nodiscard]] const Network& sampling() const;

  WeightCache cache_;
  std::unique_ptr<Lagging> lagging_;
  std::unique_ptr<Network> learner_network_,
      sampler_network_;  ///< sampler_network_ is null when both are equal, or when the sampler lags
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<Sampler> sampler_;
  io::Contract contract_;  ///< the numerics of the sampler
};

/// The frozen policy of the KL penalty: weights of its own, run with the learner's recipe.
class Reference {
 public:
  /// `checkpoint` is a folder with trainer.safetensors for a model of shape `model`.
  Reference(const ModelConfig& model, const std::filesystem::path& checkpoint, const RunConfig& config,
            const Sides& sides, const OpTable& table, ThreadPool& pool);
  /// As Learner::score().
  void score(std::span<const Sequence> sequences, float temperature, std::span<float> logp) {
    learner_->score(sequences, temperature, logp, {});
  }

 private:
  Weights weights_;
  WeightCache cache_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Learner> learner_;
};

/// Whether an Engine for `sides` can be built: throws as its constructor does, without its working memory.
void check_sides(const Weights& weights, const RunConfig& config, const Sides& sides, const OpTable& table);

}  // namespace minite::rl
