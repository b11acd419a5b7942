#include "learn/model_tensors.h"

#include <map>
#include <set>
#include <system_error>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/json_file.h"

namespace minite {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kWhole = "model.safetensors", *kIndex = "model.safetensors.index.json";

/// Names of tensors by shard.
std::map<std::string, std::set<std::string>> shards_of(const fs::path& index) {
  const json document = io::read_json_file(index);
  const bool map =
      document.is_object() && document.contains("weight_map") && document["weight_map"].is_object();
  if (!map) fail(ErrorCode::corrupt_data, "{}: weight_map is missing or no object", index.string());
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [name, file] : document["weight_map"].items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : "";
    // A name, not a path: an index may not lead out of its folder.
    if (shard.empty() || shard.find('\0') != shard.npos || fs::path(shard).filename() != fs::path(shard)) {
      fail(ErrorCode::corrupt_data, "{}: weight_map says that {} is in '{}', which is no name of a file",
           index.string(), printable(name), printable(shard));
    }
    shards[shard].insert(name);
  }
  if (shards.empty()) fail(ErrorCode::corrupt_data, "{}: weight_map is empty", index.string());
  return shards;
}

}  // namespace

ModelTensors::ModelTensors(const fs::path& folder) : path_(folder / kWhole) {
  std::error_code ignored;
  if (!fs::exists(path_, ignored) && fs::exists(folder / kIndex, ignored)) {
    open_shards(folder);
    return;
  }
  files_.emplace_back(path_);
  tensors_ = files_.back().tensors();
}

void ModelTensors::open_shards(const fs::path& folder) {
  path_ = folder / kIndex;
  for (const auto& [shard, names] : shards_of(path_)) {
    const io::SafetensorsFile& file = files_.emplace_back(folder / shard);
    for (const auto& [name, info] : file.tensors()) {
      if (!names.contains(name)) {
        fail(ErrorCode::corrupt_data, "{}: holds {}, which {} does not say", file.path().string(), name,
             path_.string());
      }
      tensors_[name] = info;
    }
    for (const std::string& name : names) {
      if (file.tensors().contains(name)) continue;
      fail(ErrorCode::corrupt_data, "{}: {} is not in {}, as weight_map says", path_.string(),
           printable(name), file.path().string());
    }
  }
}

const io::TensorInfo& ModelTensors::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [other, info] : tensors_) names.push_back(other);
  fail(ErrorCode::not_found, "{} has no tensor \"{}\"{}", path_.string(), printable(name),
       did_you_mean(name, names));
}

}  // namespace minite
