#include "cli/loaded_model.h"

#include <cmath>

#include "backends/registry.h"
#include "core/env.h"
#include "core/fail.h"
#include "learn/checkpoint.h"

namespace minite::cli {
namespace {

std::string recipe_or_default(const std::string& name) {
  return name.empty() ? std::string(env_recipe()) : name;
}

std::vector<ResolvedLinear> resolve_for(const LoadOptions& options, const std::string& recipe,
                                        const ModelConfig& c) {
  const std::vector<Rule> rules = options.rules.empty() ? std::vector<Rule>{} : load_rules(options.rules);
  return resolve(recipe, rules, linear_modules(c), static_cast<int>(c.num_hidden_layers));
}

}  // namespace

void add_load_options(CLI::App& app, LoadOptions& options) {
  app.add_option("CKPT", options.checkpoint, "checkpoint folder, e.g. RUN/checkpoints/step_000240")
      ->required();
  app.add_option("--recipe", options.recipe,
                 "recipe of the linear layers (default: MINITE_RECIPE, else bf16)");
  app.add_option("--rules", options.rules, "YAML file of per-layer recipes");
  app.add_option("--kv-cache", options.kv_cache, "format of keys and values, of `minite formats --kv`")
      ->capture_default_str();
  app.add_option("--sampler-policy", options.policy, "batch_invariant, fastest or exact(KERNEL)")
      ->capture_default_str();
  app.add_option("--backend", options.backend, "auto, simd or ref")->capture_default_str();
  app.add_option("--threads", options.threads, "threads, 0 for all")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
}

LoadedModel::LoadedModel(const LoadOptions& options)
    : checkpoint_(options.checkpoint),
      recipe_(recipe_or_default(options.recipe)),
      kv_format_(parse_kv_format("--kv-cache", options.kv_cache)),
      tokenizer_(io::load_tokenizer(options.checkpoint)),
      pool_(options.threads > 0 ? static_cast<int>(options.threads) : env_threads()),
      weights_(load_model_config(options.checkpoint), DType::bf16, Purpose::inference),
      cache_(weights_) {
  require_fit(*tokenizer_, config(), options.checkpoint);
  load_model(options.checkpoint, weights_);
  const OpTable& table = backend(options.backend == "auto" ? env_backend() : options.backend);
  network_ = std::make_unique<Network>(weights_, cache_, resolve_for(options, recipe_, config()), table,
                                       Policy::parse(options.policy), kv_format_);
  sampler_ = std::make_unique<Sampler>(
      *network_, table, pool_, SamplerLimits{options.sequences, config().max_position_embeddings, 4096});
  cache_.refresh(Context{&table, &pool_, nullptr, {}});
}

std::vector<Sample> LoadedModel::generate(std::span<const SampleRequest> requests,
                                          const SampleParams& params) {
  std::vector<Sample> samples = sampler_->generate(requests, params);
  for (const Sample& s : samples) {
    for (size_t t = 0; t < s.logp.size(); ++t) {
      if (std::isfinite(s.logp[t])) continue;
      fail(ErrorCode::non_finite,
           "{}: the log-probability of response token {} is not finite; its weights hold NaN or infinity, or "
           "overflow with recipe {}",
           checkpoint_, t + 1, recipe_);
    }
  }
  return samples;
}

}  // namespace minite::cli
