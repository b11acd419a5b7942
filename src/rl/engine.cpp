#include "rl/engine.h"

#include "learn/checkpoint.h"

namespace minite::rl {

std::vector<ResolvedLinear> resolve_side(const ModelConfig& model, const RunConfig& config,
                                         const std::string& recipe) {
  std::vector<Rule> rules;
  if (!config.rules.empty()) rules = parse_rules(config.rules, "rules");
  return resolve(recipe, rules, linear_modules(model), static_cast<int>(model.num_hidden_layers));
}

std::unique_ptr<Network> make_network(const Weights& weights, WeightCache& cache, const RunConfig& config,
                                      const std::string& recipe, KvFormat kv, const OpTable& table) {
  return std::make_unique<Network>(weights, cache, resolve_side(weights.config(), config, recipe), table,
                                   Policy::parse(config.sampler_policy), kv);
}

void check_sides(const Weights& weights, const RunConfig& config, const Sides& sides, const OpTable& table) {
  WeightCache cache(weights);
  (void)make_network(weights, cache, config, sides.learner_recipe, config.learner_kv, table);
  (void)make_network(weights, cache, config, sides.sampler_recipe, config.kv_cache, table);
}

Engine::Engine(Weights& weights, const RunConfig& config, const Sides& sides, const OpTable& table,
               ThreadPool& pool)
    : cache_(weights) {
  const auto network = [&](const std::string& recipe, KvFormat kv) {
    return make_network(weights, cache_, config, recipe, kv, table);
  };
  learner_network_ = network(sides.learner_recipe, config.learner_kv);
  if (config.rl.rollout_staleness > 0) {
    lagging_ = std::make_unique<Lagging>(weights);
    lagging_->network = make_network(lagging_->weights, lagging_->cache, config, sides.sampler_recipe,
                                     config.kv_cache, table);
  } else if (sides.sampler_recipe != sides.learner_recipe || config.kv_cache != config.learner_kv) {
    sampler_network_ = network(sides.sampler_recipe, config.kv_cache);
  }
  learner_ = std::make_unique<Learner>(weights, *learner_network_, table, pool,
                                       LearnerLimits{config.micro_tokens, config.max_length});
  sampler_ = std::make_unique<Sampler>(sampling(), table, pool,
                                       SamplerLimits{config.sampler_sequences, config.max_length, 4096});
  contract_ =
      numeric_contract(sides.sampler_recipe, resolve_side(weights.config(), config, sides.sampler_recipe),
                       config.kv_cache, config.sampler_policy);
}

Reference::Reference(const ModelConfig& model, const std::filesystem::path& checkpoint,
                     const RunConfig& config, const Sides& sides, const OpTable& table, ThreadPool& pool)
    : weights_(model, DType::bf16, Purpose::training), cache_(weights_) {
  (void)load_trainer(checkpoint, weights_);
  network_ = make_network(weights_, cache_, config, sides.learner_recipe, config.learner_kv, table);
  learner_ = std::make_unique<Learner>(weights_, *network_, table, pool,
                                       LearnerLimits{config.micro_tokens, config.max_length});
  cache_.refresh(learner_->context());
}

const Network& Engine::sampling() const {
  if (lagging_) return *lagging_->network;
  return sampler_network_ ? *sampler_network_ : *learner_network_;
}

void Engine::sample_at(const learn::WeightHistory& history, int64_t version) {
  if (lagging_->version == version) return;
  history.restore(version, lagging_->weights);
  lagging_->cache.refresh(learner_->context());
  lagging_->version = version;
}

io::Contract Engine::sampler_contract(int64_t learner_version) const {
  io::Contract contract = contract_;
  contract.weight_version = lagging_ ? lagging_->version : learner_version;
  contract.weights_digest = digest_of(weight_digests(sampling().weights()));
  return contract;
}

std::vector<std::string> Engine::plans() const {
  std::vector<std::string> all;
  for (const std::string& line : learner_network_->plans()) all.push_back("learner " + line);
  for (const std::string& line : sampling().plans()) {
    const bool forward = line.find(" fprop: ") != std::string::npos || line.starts_with("attention: ");
    if (forward) all.push_back("sampler " + line);
  }
  return all;
}

}  // namespace minite::rl
