#pragma once
// The weights of a Hugging Face folder: model.safetensors, or shards that model.safetensors.index.json names.
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace minite::io {

inline constexpr const char* kSingleName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";

/// Shard of each tensor, as an index says.
using WeightMap = std::map<std::string, std::string>;

/// The weight_map of an index. Errors (corrupt_data, with the file and the tensor): no weight_map object, a
/// tensor that is named twice, a shard that is no plain name of a .safetensors file ("../x", "a/b", "").
[[nodiscard]] WeightMap parse_weight_index(std::string_view text, const std::string& name);

/// Every tensor of a folder. Shards are mapped; only their headers are read until somebody looks at a tensor.
class CheckpointFolder {
 public:
  struct Entry {
    size_t shard = 0;  ///< index of shards()
    TensorInfo info;
  };

  /// Errors: not_found (neither file), corrupt_data (as SafetensorsFile and parse_weight_index; an index that
  /// names a file or a tensor which is not there or is elsewhere, a tensor in two shards or missing from the
  /// index, an index beside a model.safetensors that it does not name).
  explicit CheckpointFolder(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Sorted by name.
  [[nodiscard]] const std::map<std::string, Entry>& tensors() const { return tensors_; }
  [[nodiscard]] const TensorInfo* find(const std::string& name) const;
  /// Error: not_found, with the nearest name.
  [[nodiscard]] const TensorInfo& at(const std::string& name) const;
  /// In the order of their names.
  [[nodiscard]] const std::vector<SafetensorsFile>& shards() const { return shards_; }
  /// Bytes of all tensors.
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  void add_shard(const std::filesystem::path& file);
  void compare(const WeightMap& index) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, Entry> tensors_;
  int64_t bytes_ = 0;
};

/// Gives the memory of mapped bytes back to the system; they are read from the file again when touched.
/// Whatever shares a page with their ends stays.
void drop_mapped(std::span<const std::byte> bytes);

/// "layers.2" before "layers.10": runs of digits compare as numbers, everything else byte by byte.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

}  // namespace minite::io
