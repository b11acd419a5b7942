#pragma once
// Captures written by hand, or taken from a real one and spread over ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "diagnostics/capture_reader.h"
#include "io/safetensors.h"
#include "support/temp_folder.h"
#include "support/tensor_file.h"

namespace minite::test_support {

class HandCapture {
 public:
  HandCapture() {
    m.role = "learner";
    m.producer = "a test";
    m.contract.recipe = "nvfp4_per_token";
    m.contract.kv_format = "bf16";
    m.contract.policy = "batch_invariant";
    m.contract.weights_digest = "00";
    m.model = {{"num_hidden_layers", 1}, {"num_experts_per_tok", 2}};
    m.selection = {{"logits", false}};
  }

  template <class T>
  HandCapture& add(const diagnostics::CapturedTensor& about, io::StoredType type,
                   const std::vector<int64_t>& shape, const std::vector<T>& values) {
    return add_bytes(about, type, shape, raw(values));
  }
  /// `about` may be one of this capture.
  HandCapture& add_bytes(diagnostics::CapturedTensor about, io::StoredType type,
                         const std::vector<int64_t>& shape, std::string bytes) {
    bytes_.push_back(std::move(bytes));
    tensors_[about.rank][about.name] = {type, shape, std::as_bytes(std::span(bytes_.back()))};
    std::erase_if(m.tensors, [&](const auto& t) { return t.name == about.name && t.rank == about.rank; });
    m.tensors.push_back(about);
    m.tensors.back().file = fmt::format("tensors-{:05}.safetensors", about.rank);
    return *this;
  }
  template <class T>
  HandCapture& list(const std::string& name, io::StoredType type, const std::vector<T>& values) {
    diagnostics::CapturedTensor about;
    about.name = name;
    return add(about, type, {static_cast<int64_t>(values.size())}, values);
  }
  /// Rows of a table, "rows" or "scored".
  HandCapture& rows(const std::string& table, const std::vector<diagnostics::RowId>& ids) {
    std::vector<int64_t> request;
    std::vector<int32_t> sample, position, token;
    for (const auto& id : ids) {
      request.push_back(id.request);
      sample.push_back(id.sample);
      position.push_back(id.position);
      token.push_back(id.token);
    }
    return list(table + ".request", io::StoredType::i64, request)
        .list(table + ".sample", io::StoredType::i32, sample)
        .list(table + ".position", io::StoredType::i32, position)
        .list(table + ".token", io::StoredType::i32, token);
  }
  HandCapture& experts(const std::vector<int32_t>& expert, const std::vector<int32_t>& slot) {
    list("rows.0.expert", io::StoredType::i32, expert).list("rows.0.slot", io::StoredType::i32, slot);
    about("rows.0.expert").layer = about("rows.0.slot").layer = 0;
    return *this;
  }
  /// A tensor of FP32 rows of `module` in layer 0, or outside of the layers with layer -1.
  HandCapture& values(const std::string& module, const std::string& point, int64_t cols,
                      const std::vector<float>& x, int layer = 0) {
    const bool bare = module == "logprob";
    diagnostics::CapturedTensor about = named(module, point, layer);
    if (bare) about.name = module;
    about.format = "f32";
    const auto count = static_cast<int64_t>(x.size()) / cols;
    const bool flat = bare || point.ends_with("outer_scale");
    if (point != "output" && point != "input") about.format = "nvfp4", about.spec = "nvfp4[te,outer=row]";
    if (!about.spec.empty()) about.scale_domain = "row";
    return add(about, io::StoredType::f32, flat ? std::vector{count} : std::vector{count, cols}, x);
  }
  HandCapture& codes(const std::string& module, const std::string& point, const std::vector<int64_t>& shape,
                     const std::vector<uint8_t>& x, const std::string& domain = "row",
                     const std::string& format = "nvfp4") {
    diagnostics::CapturedTensor about = named(module, point, 0);
    about.format = format, about.scale_domain = domain, about.spec = format + "[te,outer=" + domain + "]";
    return add(about, io::StoredType::u8, shape, x);
  }

  [[nodiscard]] diagnostics::CapturedTensor& about(const std::string& name, int64_t rank = 0) {
    for (auto& t : m.tensors) {
      if (t.name == name && t.rank == rank) return t;
    }
    throw std::out_of_range(name);
  }
  void remove(const std::string& name, int64_t rank = 0) {
    std::erase_if(m.tensors, [&](const auto& t) { return t.name == name && t.rank == rank; });
  }
  /// The bytes of a tensor, to be changed.
  [[nodiscard]] std::string& bytes(const std::string& name, int64_t rank = 0) {
    const std::byte* data = tensors_.at(rank).at(name).bytes.data();
    for (std::string& s : bytes_) {
      if (reinterpret_cast<const std::byte*>(s.data()) == data) return s;
    }
    throw std::out_of_range(name);
  }

  /// A capture of one rank as another program would have written it.
  void load(const diagnostics::Capture& from) {
    m = from.manifest();
    for (const auto& about : from.manifest().tensors) {
      const io::TensorInfo& t = from.tensor(about.name);
      add_bytes(about, t.type, t.shape, {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()});
    }
  }
  /// Moves experts to ranks: rank r holds the experts placement[r], stacked in that order, and its packed
  /// rows come in the reverse of the order that they had. Padding stays on rank 0.
  void shard(const std::vector<std::vector<int32_t>>& placement) {
    const std::vector<diagnostics::CapturedTensor> all = m.tensors;
    const io::TensorMap whole = tensors_.at(0);
    for (const auto& about : all) {
      const std::string table = fmt::format("rows.{}.", about.layer);
      const bool listed = about.name == table + "expert" || about.name == table + "slot";
      if (!listed && !about.module.starts_with("experts.")) continue;
      const bool weight = about.point.starts_with("weight.");
      const io::TensorInfo& t = whole.at(about.name);
      const std::vector<int32_t> expert = ints(whole.at(table + "expert")),
                                 slot = ints(whole.at(table + "slot"));
      remove(about.name);
      for (size_t r = 0; r < placement.size(); ++r) {
        std::vector<int64_t> entries;
        if (weight) entries.assign(placement[r].begin(), placement[r].end());
        for (size_t i = expert.size(); !weight && i-- > 0;) {
          const bool padding = slot[i] < 0;
          if (padding ? r == 0 : std::ranges::count(placement[r], expert[i]) > 0)
            entries.push_back(static_cast<int64_t>(i));
        }
        auto part = about;
        part.rank = static_cast<int64_t>(r);
        if (weight || about.name == table + "expert") part.experts = placement[r];
        auto shape = t.shape;
        shape[0] = static_cast<int64_t>(entries.size());
        add_bytes(part, t.type, shape, picked(t, entries));
      }
    }
  }
  [[nodiscard]] const std::filesystem::path& write(const std::string& name) {
    path_ = folder_ / name;
    std::filesystem::create_directories(path_);
    for (const auto& [rank, tensors] : tensors_)
      io::write_safetensors(path_ / fmt::format("tensors-{:05}.safetensors", rank), tensors);
    write_capture_manifest(path_, m);
    return path_;
  }
  /// The capture as a reader sees it.
  [[nodiscard]] diagnostics::Capture open(const std::string& name = "capture") {
    return diagnostics::Capture(write(name));
  }

  diagnostics::CaptureManifest m;

 private:
  static diagnostics::CapturedTensor named(const std::string& module, const std::string& point, int layer) {
    diagnostics::CapturedTensor about;
    about.name = (layer < 0 ? "" : "layers." + std::to_string(layer) + ".") + module + "." + point;
    about.layer = layer, about.module = module, about.point = point;
    return about;
  }

  static std::vector<int32_t> ints(const io::TensorInfo& t) {
    std::vector<int32_t> all(t.bytes.size() / sizeof(int32_t));
    if (!all.empty()) std::memcpy(all.data(), t.bytes.data(), t.bytes.size());
    return all;
  }
  /// The entries of the first dimension, one behind the other.
  static std::string picked(const io::TensorInfo& t, const std::vector<int64_t>& entries) {
    const size_t each = t.shape[0] == 0 ? 0 : t.bytes.size() / static_cast<size_t>(t.shape[0]);
    std::string bytes;
    for (const int64_t e : entries)
      bytes.append(reinterpret_cast<const char*>(t.bytes.data()) + static_cast<size_t>(e) * each, each);
    return bytes;
  }

  TempFolder folder_;
  std::filesystem::path path_;
  std::deque<std::string> bytes_;
  std::map<int64_t, io::TensorMap> tensors_;  ///< by rank
};

}  // namespace minite::test_support
