#include "cli/loaded_model.h"

#include <algorithm>
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
  app.add_option("CKPT", options.checkpoint,
                 "checkpoint: a folder, e.g. RUN/checkpoints/step_000240, or a GGUF file")
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
      cache_(weights_),
      table_(&backend(options.backend == "auto" ? env_backend() : options.backend)),
      sequences_(options.sequences) {
  require_fit(*tokenizer_, config(), options.checkpoint);
  load_model(options.checkpoint, weights_);
  network_ = std::make_unique<Network>(weights_, cache_, resolve_for(options, recipe_, config()), *table_,
                                       Policy::parse(options.policy), kv_format_);
  cache_.refresh(Context{table_, &pool_, nullptr, {}}, options.codes);
}

void LoadedModel::require_finite(std::span<const float> logp) const {
  for (size_t t = 0; t < logp.size(); ++t) {
    if (std::isfinite(logp[t])) continue;
    fail(ErrorCode::non_finite,
         "{}: the log-probability of response token {} is not finite; its weights hold NaN or infinity, or "
         "overflow with recipe {}",
         checkpoint_, t + 1, recipe_);
  }
}

std::vector<Sample> LoadedModel::generate(std::span<const SampleRequest> requests,
                                          const SampleParams& params) {
  // Memory for what is asked for: keys and values of all positions of a long model would be gigabytes.
  const int64_t room = config().max_position_embeddings;
  int64_t longest = 0;
  for (const SampleRequest& r : requests) longest = std::max(longest, static_cast<int64_t>(r.prompt.size()));
  const int64_t length =
      longest >= room ? room : std::min(room, longest + std::max<int64_t>(params.max_new_tokens, 1));
  const int64_t sequences = std::min(sequences_, std::max<int64_t>(std::ssize(requests), 1));
  Sampler sampler(
      *network_, *table_, pool_,
      SamplerLimits{sequences, std::max<int64_t>(length, 2), std::min<int64_t>(4096, sequences * length)});
  std::vector<Sample> samples = sampler.generate(requests, params);
  for (const Sample& s : samples) require_finite(s.logp);
  return samples;
}

std::vector<float> LoadedModel::score(std::span<const Sequence> sequences) {
  int64_t longest = 1, count = 0;
  for (const Sequence& s : sequences) {
    longest = std::max(longest, static_cast<int64_t>(s.tokens.size()) - 1);
    count += s.response();
  }
  Learner learner(weights_, *network_, *table_, pool_, {longest, longest});
  std::vector<float> logp(static_cast<size_t>(count));
  learner.score(sequences, 1.0f, logp, {});
  require_finite(logp);
  return logp;
}

}  // namespace minite::cli
