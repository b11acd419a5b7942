#pragma once
// The safetensors files behind a path, as `inspect` sees them: one file, or a folder with or without an
// index.
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace minite::cli {

/// Something wrong, and where. `tensor` is empty for a whole file.
struct Fault {
  std::string file, tensor, what;
};

/// Tensors that belong together: those of one file, or of all shards of an index.
struct TensorSpace {
  std::string label;  ///< the file, or the index
  struct Entry {
    std::string file;
    io::TensorInfo info;
  };
  std::map<std::string, Entry> tensors;
  io::Metadata metadata;

  [[nodiscard]] const Entry* find(const std::string& name) const {
    const auto it = tensors.find(name);
    return it == tensors.end() ? nullptr : &it->second;
  }
};

struct TensorSet {
  std::string kind;  ///< "safetensors file", "sharded folder", "folder"
  std::vector<TensorSpace> spaces;
  std::vector<std::unique_ptr<io::SafetensorsFile>> files;  ///< own the bytes
  std::vector<Fault> faults;                                ///< of containers, index and manifest
  std::string quant_method;  ///< of config.json or hf_quant_config.json; empty: none is named
};

/// What happens with a file that cannot be read.
enum class Damage : uint8_t { thrown, listed };

/// Opens the files of `path`. Errors: not_found; unsupported for a GGUF file in a folder; corrupt_data unless
/// damage is listed.
[[nodiscard]] TensorSet open_tensors(const std::filesystem::path& path, Damage damage);

}  // namespace minite::cli
