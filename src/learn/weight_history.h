#pragma once
// Earlier versions of the weights, for a sampler that lags behind the learner.
#include <filesystem>
#include <map>

#include "model/weights.h"

namespace minite::learn {

/// FP32 masters of the last versions. A version is the number of steps that the learner had finished.
class WeightHistory {
 public:
  /// Keeps the versions down to `depth` below the newest; 0 keeps nothing.
  explicit WeightHistory(int64_t depth) : depth_(depth) {}

  /// Keeps the masters of `weights` as `version`.
  void keep(int64_t version, const Weights& weights);
  /// Masters and weights of `to`, a model of the same shape, become those of `version`, which must be kept.
  void restore(int64_t version, Weights& to) const;
  void clear() { versions_.clear(); }

  [[nodiscard]] int64_t depth() const { return depth_; }
  /// Versions kept, ascending.
  [[nodiscard]] std::vector<int64_t> versions() const;

  /// Writes rollout_weights.safetensors with the versions that a step after `newest` finished ones needs;
  /// nothing when there are none.
  void save(const std::filesystem::path& folder, const Weights& shape, int64_t newest) const;
  /// Reads what save() wrote for `newest`. Errors: not_found, invalid_argument (another shape), corrupt_data.
  void load(const std::filesystem::path& folder, const Weights& shape, int64_t newest);

 private:
  /// First version that the step after `newest` finished ones needs.
  [[nodiscard]] int64_t oldest(int64_t newest) const { return newest > depth_ ? newest - depth_ : 0; }

  int64_t depth_;
  std::map<int64_t, std::vector<float>> versions_;  ///< all parameters in order
};

}  // namespace minite::learn
