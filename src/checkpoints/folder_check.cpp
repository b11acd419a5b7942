#include "checkpoints/folder_check.h"

#include <algorithm>

#include "checkpoints/fused.h"
#include "core/fail.h"
#include "io/json_file.h"

namespace minite::checkpoints {
namespace fs = std::filesystem;
namespace {

/// Decode multipliers above this are an amax above 43008; what weights and activations have is below.
constexpr float kLargest = 16;

class Checker {
 public:
  explicit Checker(const QuantizedFolder& found) : found_(found) {}

  std::vector<Fault> run() {
    for (const auto& [name, module] : found_.modules) {
      check_magnitude(module, module.layout->global, module.global);
      check_magnitude(module, module.layout->input_global, module.input);
    }
    check_fused();
    return std::move(faults_);
  }

 private:
  void fault(const std::string& tensor, std::string what) {
    const auto it = found_.folder.tensors().find(tensor);
    const std::string file = it == found_.folder.tensors().end()
                                 ? ""
                                 : found_.folder.shards()[it->second.shard].path().filename().string();
    faults_.push_back({file, tensor, std::move(what)});
  }

  void check_magnitude(const StoredModule& m, std::string_view suffix, const std::vector<float>& values) {
    const bool reciprocal = m.layout->stored == StoredGlobal::reciprocal;
    for (const float x : values) {
      if ((reciprocal ? 1.0f / x : x) <= kLargest) continue;
      fault(m.tensor(suffix),
            fmt::format(
                "is {}, as if the largest value were {:.3g}: {} stores {} here, and this looks like {}", x,
                2688.0 * (reciprocal ? 1.0 / x : x), m.layout->name,
                reciprocal ? "2688 / amax" : "amax / 2688", reciprocal ? "amax / 2688" : "its reciprocal"));
      return;
    }
  }

  void check_fused() {
    std::vector<const StoredModule*> modules;
    std::vector<FusedMember> members;
    for (const auto& [name, module] : found_.modules) {
      modules.push_back(&module);
      members.push_back({name, module.cols});
    }
    for (const std::vector<size_t>& group : fused_groups(members)) {
      const StoredModule& first = *modules[group.front()];
      const bool parts = fused_parts(first.name) > 1 && first.shape.size() == 2;
      if (group.size() < 2 && !parts) continue;
      check_equal(modules, group, &StoredModule::global, &Layout::global);
      check_equal(modules, group, &StoredModule::input, &Layout::input_global);
    }
  }

  void check_equal(const std::vector<const StoredModule*>& modules, const std::vector<size_t>& group,
                   std::vector<float> StoredModule::*values, std::string_view Layout::*suffix) {
    const StoredModule& first = *modules[group.front()];
    if ((first.*values).empty() || first.layout->outer == OuterScale::row || first.shape.size() != 2) return;
    std::string list;
    bool differ = false;
    for (const size_t i : group) {
      for (const float x : modules[i]->*values) {
        differ = differ || x != (first.*values).front();
        list += fmt::format("{}{} {}", list.empty() ? "" : ", ", modules[i]->name, x);
      }
    }
    if (differ)
      fault(first.tensor(first.layout->*suffix),
            fmt::format("differs inside a group that servers fuse into {}: {}; they take one for all",
                        fused_parts(first.name) > 1 ? first.name : fused_name(first.name), list));
  }

  const QuantizedFolder& found_;
  std::vector<Fault> faults_;
};

/// What two configurations of one folder say in different ways.
void check_configs(const fs::path& folder, std::vector<Fault>& faults) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.json", ignored) || !fs::exists(folder / "hf_quant_config.json", ignored))
    return;
  const auto a = parse_quant_config(io::read_json_file(folder / "config.json"), {}, folder.string());
  const auto b = parse_quant_config({}, io::read_json_file(folder / "hf_quant_config.json"), folder.string());
  if (!a || !b) return;
  const auto sorted = [](std::vector<std::string> entries) {
    std::sort(entries.begin(), entries.end());
    return entries;
  };
  if (a->label != b->label)
    faults.push_back(
        {"hf_quant_config.json", "", fmt::format("says {}, and config.json says {}", b->label, a->label)});
  if (sorted(a->ignore.entries()) != sorted(b->ignore.entries()))
    faults.push_back(
        {"hf_quant_config.json", "",
         fmt::format("leaves out {} entries in exclude_modules, other ones than the {} of config.json",
                     b->ignore.entries().size(), a->ignore.entries().size())});
}

}  // namespace

std::vector<Fault> check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / io::kSingleName, ignored) && !fs::exists(folder / io::kIndexName, ignored))
    return {};
  try {
    const QuantizedFolder found = open_quantized(folder, OnFault::listed);
    std::vector<Fault> faults = found.faults;
    for (Fault& fault : Checker(found).run()) faults.push_back(std::move(fault));
    check_configs(folder, faults);
    return faults;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_argument) throw;
    return {{"config.json", "", error.what()}};
  }
}

}  // namespace minite::checkpoints
