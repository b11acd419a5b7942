#pragma once
// A checkpoint ready to sample from and to score with, as eval, generate and perplexity need it.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "io/tokenizer.h"
#include "learn/learner.h"
#include "sample/sampler.h"

namespace minite::cli {

struct LoadOptions {
  std::string checkpoint, recipe, policy = "batch_invariant", backend = "auto", rules, kv_cache = "bf16";
  int64_t threads = 0;
  int64_t sequences = 128;
  const CodesSource* codes =
      nullptr;  ///< of weights, in place of quantizing them; lives as long as the model
};

/// Adds CKPT, --recipe, --rules, --kv-cache, --sampler-policy, --backend and --threads.
void add_load_options(CLI::App& app, LoadOptions& options);

class LoadedModel {
 public:
  explicit LoadedModel(const LoadOptions& options);

  [[nodiscard]] const io::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Sampler::generate, with room for these requests. Error: non_finite when a log-probability is NaN or
  /// infinite.
  [[nodiscard]] std::vector<Sample> generate(std::span<const SampleRequest> requests,
                                             const SampleParams& params);
  /// As Learner::score, one sequence at a time: log-probs of the response tokens at temperature 1 by the
  /// learner's forward pass. Error: non_finite.
  [[nodiscard]] std::vector<float> score(std::span<const Sequence> sequences);
  [[nodiscard]] const ModelConfig& config() const { return weights_.config(); }
  [[nodiscard]] const std::string& recipe() const { return recipe_; }
  /// Name of the format of keys and values.
  [[nodiscard]] std::string_view kv_cache() const { return kv_format(kv_format_).name; }

 private:
  void require_finite(std::span<const float> logp) const;

  std::string checkpoint_, recipe_;
  KvFormat kv_format_;
  std::unique_ptr<io::Tokenizer> tokenizer_;
  ThreadPool pool_;
  Weights weights_;
  WeightCache cache_;
  const OpTable* table_;
  int64_t sequences_;
  std::unique_ptr<Network> network_;
};

}  // namespace minite::cli
