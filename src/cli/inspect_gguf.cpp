#include "cli/inspect_gguf.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/tensor_set.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "io/ggml_blocks.h"
#include "io/gguf.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kShownElements = 6;  ///< of an array
constexpr size_t kShownText = 60;       ///< bytes of a string

ordered_json value_json(const io::GgufFile& file, const std::string& key) {
  using enum io::GgufValueType;
  const io::GgufValue& value = file.content().values.at(key);
  if (value.array) {
    if (value.type == string) return file.texts(key);
    if (value.type == boolean) return fmt::format("{} booleans", value.count);
    if (value.type == f32 || value.type == f64) return file.numbers(key);
    return file.integers(key);
  }
  if (value.type == string) return file.text(key);
  if (value.type == boolean) return file.boolean(key);
  if (value.type == f32 || value.type == f64) return file.number(key);
  return file.integer(key);
}

/// A value on one line; long arrays and strings are cut.
std::string value_text(const io::GgufFile& file, const std::string& key) {
  const io::GgufValue& value = file.content().values.at(key);
  ordered_json shown = value_json(file, key);
  if (shown.is_string()) return printable(shown.get_ref<const std::string&>(), kShownText);
  if (!value.array || value.count <= kShownElements) return shown.dump(-1, ' ', true);
  std::string text = "[";
  for (uint64_t i = 0; i < kShownElements; ++i)
    text += shown[i].is_string()
                ? fmt::format("\"{}\", ", printable(shown[i].get_ref<const std::string&>(), 12))
                : shown[i].dump() + ", ";
  return fmt::format("{}... {} in all]", text, value.count);
}

int64_t non_finite(const io::GgufTensor& tensor) {
  const io::GgufTypeRow& row = io::gguf_type(tensor.type);
  const auto block = static_cast<size_t>(row.block), bytes = static_cast<size_t>(row.bytes);
  std::vector<float> values(4096 / block * block);
  int64_t count = 0;
  for (size_t at = 0; at < tensor.bytes.size();) {
    const size_t blocks = std::min(values.size() / block, (tensor.bytes.size() - at) / bytes);
    const std::span<float> part(values.data(), blocks * block);
    io::decode_blocks(tensor.type, tensor.bytes.subspan(at, blocks * bytes), part);
    for (const float x : part) count += std::isfinite(x) ? 0 : 1;
    at += blocks * bytes;
  }
  return count;
}

/// NVFP4 scale bytes of which ggml makes zero although they are not: 0x7F and 0xFF, NaN elsewhere.
struct ScaleCount {
  int64_t nan = 0, zero = 0, all = 0;
};
ScaleCount scales_of(const io::GgufTensor& tensor) {
  ScaleCount count;
  for (size_t at = 0; at < tensor.bytes.size(); at += 36) {
    for (size_t i = 0; i < 4; ++i) {
      const auto scale = std::to_integer<uint8_t>(tensor.bytes[at + i] & std::byte{0x7F});
      count.nan += scale == 0x7F ? 1 : 0;
      count.zero += scale == 0 ? 1 : 0;
      ++count.all;
    }
  }
  return count;
}

/// "blk.0.attn_q.weight" has its outer scale in "blk.0.attn_q.scale".
std::string sidecar_of(const std::string& name) {
  constexpr std::string_view kEnd = ".weight";
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) + ".scale" : name + ".scale";
}

std::vector<Fault> faults_of(const io::GgufFile& file) {
  std::vector<Fault> faults;
  const std::string where = file.path().filename().string();
  int64_t with_scale = 0;
  std::vector<std::string> without_scale;
  for (const auto& [name, tensor] : file.content().tensors) {
    if (const int64_t bad = non_finite(tensor); bad > 0)
      faults.push_back({where, name, fmt::format("has {} values that are not finite", bad)});
    if (tensor.type != io::GgufType::nvfp4) continue;
    const ScaleCount scales = scales_of(tensor);
    if (scales.nan > 0)
      faults.push_back(
          {where, name,
           fmt::format("has {} scale bytes 0x7F, which are NaN in E4M3 and 0 in ggml: these blocks are lost",
                       scales.nan)});
    if (scales.all > 0 && scales.zero == scales.all)
      faults.push_back({where, name, "has block scales that are all zero"});
    file.content().tensors.contains(sidecar_of(name)) ? void(++with_scale) : without_scale.push_back(name);
  }
  // llama.cpp's own quantizer writes no outer scales at all; some without are a slip of a converter.
  if (with_scale > 0) {
    for (const std::string& name : without_scale)
      faults.push_back({where, name,
                        fmt::format("is nvfp4 without {}, which other tensors have: its outer scale is lost",
                                    sidecar_of(name))});
  }
  return faults;
}

std::string to_text(const io::GgufFile& file, const std::vector<Fault>& faults, bool check) {
  std::string text = fmt::format("{}: GGUF file\n\n", file.path().string());
  Table values({"value", "type", ""});
  for (const std::string& key : file.content().value_order) {
    const io::GgufValue& value = file.content().values.at(key);
    values.add({printable(key), fmt::format("{}{}", io::to_string(value.type), value.array ? "[]" : ""),
                value_text(file, key)});
  }
  Table tensors({"tensor", "type", "shape", "bytes"});
  std::map<std::string_view, std::pair<int64_t, int64_t>> totals;  // tensors, bytes
  for (const std::string& name : file.content().tensor_order) {
    const io::GgufTensor& tensor = file.tensor(name);
    const std::string_view type = io::gguf_type(tensor.type).name;
    tensors.add({printable(name), std::string(type), shape_text(tensor.shape),
                 fmt::format("{}", tensor.bytes.size())});
    totals[type].first += 1;
    totals[type].second += static_cast<int64_t>(tensor.bytes.size());
  }
  Table sums({"type", "tensors", "bytes"});
  for (const auto& [type, sum] : totals)
    sums.add({std::string(type), fmt::format("{}", sum.first), fmt::format("{}", sum.second)});
  text += values.to_text(2) + "\n" + tensors.to_text(2) + "\n" + sums.to_text();
  if (check) text += "\n";
  for (const Fault& fault : faults)
    text += fmt::format("fault: \"{}\" {}\n", printable(fault.tensor), fault.what);
  if (check && faults.empty()) text += "no faults\n";
  return text;
}

ordered_json to_json(const io::GgufFile& file, const std::vector<Fault>& faults, bool check) {
  ordered_json document = {{"path", file.path().string()}, {"kind", "GGUF file"}};
  document["values"] = ordered_json::object();
  for (const std::string& key : file.content().value_order) document["values"][key] = value_json(file, key);
  document["tensors"] = ordered_json::array();
  for (const std::string& name : file.content().tensor_order) {
    const io::GgufTensor& tensor = file.tensor(name);
    document["tensors"].push_back({{"name", name},
                                   {"type", io::gguf_type(tensor.type).name},
                                   {"shape", tensor.shape},
                                   {"bytes", tensor.bytes.size()}});
  }
  document["checked"] = check;
  document["faults"] = ordered_json::array();
  for (const Fault& fault : faults)
    document["faults"].push_back({{"file", fault.file}, {"tensor", fault.tensor}, {"what", fault.what}});
  return document;
}

}  // namespace

int inspect_gguf(const std::filesystem::path& path, bool check, ReportStyle style) {
  const io::GgufFile file(path);
  const std::vector<Fault> faults = check ? faults_of(file) : std::vector<Fault>();
  if (style == ReportStyle::json) {
    print_json(to_json(file, faults, check));
  } else {
    print(to_text(file, faults, check));
  }
  return faults.empty() ? kOk : kCheckFailed;
}

}  // namespace minite::cli
