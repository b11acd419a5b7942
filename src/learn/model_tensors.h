#pragma once
// The weights in a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json
// names.
#include <filesystem>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace minite {

class ModelTensors {
 public:
  /// Errors: those of SafetensorsFile; corrupt_data when index and shards tell different stories (a tensor
  /// that is not where the index says, or that it does not list), or when a shard is no plain file name.
  explicit ModelTensors(const std::filesystem::path& folder);

  /// What to name in messages: the one file, or the index.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Of all shards.
  [[nodiscard]] const io::TensorMap& tensors() const { return tensors_; }
  /// The tensor `name`. Error: not_found, with the nearest name.
  [[nodiscard]] const io::TensorInfo& at(const std::string& name) const;

 private:
  void open_shards(const std::filesystem::path& folder);

  std::filesystem::path path_;
  std::vector<io::SafetensorsFile> files_;
  io::TensorMap tensors_;
};

}  // namespace minite
