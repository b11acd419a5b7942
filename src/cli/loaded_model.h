#pragma once
// A checkpoint ready to sample from, as eval and generate need it.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "io/tokenizer.h"
#include "sample/sampler.h"

namespace minite::cli {

struct LoadOptions {
  std::string checkpoint, recipe, policy = "batch_invariant", backend = "auto", rules, kv_cache = "bf16";
  int64_t threads = 0;
  int64_t sequences = 128;
};

/// Adds CKPT, --recipe, --rules, --kv-cache, --sampler-policy, --backend and --threads.
void add_load_options(CLI::App& app, LoadOptions& options);

class LoadedModel {
 public:
  explicit LoadedModel(const LoadOptions& options);

  [[nodiscard]] const io::Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Sampler::generate. Error: non_finite when a log-probability is NaN or infinite.
  [[nodiscard]] std::vector<Sample> generate(std::span<const SampleRequest> requests,
                                             const SampleParams& params);
  [[nodiscard]] const ModelConfig& config() const { return weights_.config(); }
  [[nodiscard]] const std::string& recipe() const { return recipe_; }
  /// Name of the format of keys and values.
  [[nodiscard]] std::string_view kv_cache() const { return kv_format(kv_format_).name; }

 private:
  std::string checkpoint_, recipe_;
  KvFormat kv_format_;
  std::unique_ptr<io::Tokenizer> tokenizer_;
  ThreadPool pool_;
  Weights weights_;
  WeightCache cache_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace minite::cli
