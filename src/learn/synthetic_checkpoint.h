#pragma once
// Checkpoints made of nothing: the shapes of known models with weights that are as uneven as trained ones,
// for tests, benchmarks and teaching.
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "core/thread_pool.h"
#include "minite/model.h"

namespace minite {

/// One row of synthetic_architectures().
struct SyntheticArchitecture {
  std::string_view name;  ///< of --arch
  std::string_view does;  ///< one line
  ModelConfig (*config)();
};
[[nodiscard]] std::span<const SyntheticArchitecture> synthetic_architectures();
/// Error: not_found with the nearest name.
[[nodiscard]] const SyntheticArchitecture& synthetic_architecture(std::string_view name);

/// Writes config.json, generation_config.json and BF16 weights (Hugging Face names) shard by shard; a few
/// megabytes of them are in memory. The bytes depend on config, seed and shard size. Element (r, c) of a
/// matrix is std_dev * row[r] * channel[c] * t: t is Student's with 4 degrees of freedom and variance 1
/// (kurtosis without bound, as of trained weights), row log-normal with sigma 0.25, channel 1 but for one
/// input in 64, where it is up to 4. Norm weights are about 1 and 4 to 12 for one channel in 64, the same
/// ones in all layers: activations with the outlier channels of trained models. std_dev is that of a fresh
/// model. Errors: as io::ShardedFolder.
void write_synthetic_checkpoint(const std::filesystem::path& target,
                                const SyntheticArchitecture& architecture, uint64_t seed, int64_t shard_bytes,
                                ThreadPool& pool,
                                const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace minite
