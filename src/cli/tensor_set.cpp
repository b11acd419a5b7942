#include "cli/tensor_set.h"

#include <algorithm>
#include <set>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/files.h"
#include "io/gguf.h"
#include "io/json_file.h"
#include "io/manifest.h"

namespace minite::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kIndex = "model.safetensors.index.json";

void refuse_gguf(const fs::path& path) {
  if (io::begins_as_gguf(path))
    fail(ErrorCode::unsupported, "{0} is a GGUF file among others; it stands alone: minite inspect {0}",
         path.string());
}

class Opener {
 public:
  Opener(TensorSet& set, Damage damage) : set_(set), damage_(damage) {}

  /// Runs `body`; an error about data becomes a fault when damage is listed.
  template <class Body>
  void guarded(const std::string& file, const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (damage_ == Damage::thrown || error.code() != ErrorCode::corrupt_data) throw;
      set_.faults.push_back({file, "", error.what()});
    }
  }

  /// Adds the tensors of a file to `space`.
  void add_file(const fs::path& path, TensorSpace& space) {
    const std::string name = path.filename().string();
    guarded(name, [&] {
      set_.files.push_back(std::make_unique<io::SafetensorsFile>(path));
      const io::SafetensorsFile& file = *set_.files.back();
      for (const auto& [tensor, info] : file.tensors()) {
        const auto [it, added] = space.tensors.emplace(tensor, TensorSpace::Entry{name, info});
        if (!added) set_.faults.push_back({name, tensor, fmt::format("is also in {}", it->second.file)});
      }
      space.metadata.insert(file.metadata().begin(), file.metadata().end());
    });
  }

  /// The shards of the index as one space; returns their names.
  std::set<std::string> add_index(const fs::path& folder) {
    std::set<std::string> shards;
    guarded(kIndex, [&] {
      const nlohmann::json index = io::read_json_file(folder / kIndex);
      const auto map = index.find("weight_map");
      if (!index.is_object() || map == index.end() || !map->is_object())
        fail(ErrorCode::corrupt_data, "{} has no weight_map object", (folder / kIndex).string());
      TensorSpace space{kIndex, {}, {}};
      for (const auto& [tensor, shard] : map->items()) {
        if (!shard.is_string() || shard.get_ref<const std::string&>().find('/') != std::string::npos)
          fail(ErrorCode::corrupt_data, "{}: the file of \"{}\" is not a name", kIndex, printable(tensor));
        shards.insert(shard.get<std::string>());
      }
      for (const std::string& shard : shards) {
        if (fs::exists(folder / shard)) {
          add_file(folder / shard, space);
        } else if (damage_ == Damage::listed) {
          set_.faults.push_back({kIndex, "", fmt::format("names the file {}, which is missing", shard)});
        } else {
          fail(ErrorCode::corrupt_data, "{} names the file {}, which is missing", kIndex, shard);
        }
      }
      compare(*map, space);
      set_.spaces.push_back(std::move(space));
    });
    return shards;
  }

 private:
  /// Index and shards must tell the same story.
  void compare(const nlohmann::json& map, const TensorSpace& space) {
    for (const auto& [tensor, shard] : map.items()) {
      const TensorSpace::Entry* entry = space.find(tensor);
      const std::string expected = shard.get<std::string>();
      if (entry == nullptr) {
        set_.faults.push_back({kIndex, tensor, fmt::format("should be in {} and is in no shard", expected)});
      } else if (entry->file != expected) {
        set_.faults.push_back(
            {kIndex, tensor, fmt::format("should be in {} and is in {}", expected, entry->file)});
      }
    }
    for (const auto& [tensor, entry] : space.tensors) {
      if (!map.contains(tensor)) set_.faults.push_back({entry.file, tensor, "is not in the index"});
    }
  }

  TensorSet& set_;
  Damage damage_;
};

/// "quant_method" of config.json, or that ModelOpt's own file is there.
std::string quant_method_of(const fs::path& folder) {
  for (const char* name : {"config.json", "hf_quant_config.json"}) {
    if (!fs::exists(folder / name)) continue;
    const nlohmann::json config = io::read_json_file(folder / name);
    const char* key = std::string_view(name) == "config.json" ? "quantization_config" : "quantization";
    if (!config.is_object() || !config.contains(key) || !config[key].is_object()) continue;
    const nlohmann::json& quant = config[key];
    std::string text;
    for (const char* field : {"quant_method", "quant_algo", "format"}) {
      if (quant.contains(field) && quant[field].is_string())
        text += (text.empty() ? "" : " ") + quant[field].get<std::string>();
    }
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

TensorSet open_tensors(const fs::path& path, Damage damage) {
  TensorSet set;
  Opener opener(set, damage);
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    set.kind = "safetensors file";
    TensorSpace space{path.filename().string(), {}, {}};
    opener.add_file(path, space);
    set.spaces.push_back(std::move(space));
    return set;
  }
  const bool indexed = fs::exists(path / kIndex);
  set.kind = indexed ? "sharded folder" : "folder";
  std::set<std::string> shards;
  if (indexed) shards = opener.add_index(path);
  size_t found = shards.size();
  for (const std::string& name : io::list_entries(path)) {
    if (fs::path(name).extension() == ".gguf" && damage == Damage::thrown) refuse_gguf(path / name);
    if (fs::path(name).extension() != ".safetensors" || shards.count(name) != 0) continue;
    TensorSpace space{name, {}, {}};
    opener.add_file(path / name, space);
    set.spaces.push_back(std::move(space));
    ++found;
  }
  require(found > 0, "{} holds no .safetensors file", path.string());
  opener.guarded("config.json", [&] { set.quant_method = quant_method_of(path); });
  if (damage == Damage::listed && fs::exists(path / io::kManifestName)) {
    for (const std::string& what : io::verify_checkpoint(path))
      set.faults.push_back({io::kManifestName, "", what});
  }
  return set;
}

}  // namespace minite::cli
