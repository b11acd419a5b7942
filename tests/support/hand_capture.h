#pragma once
// Captures written by hand: two layers of nothing but what a case needs.
#include <deque>
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
    bytes_.push_back(raw(values));
    tensors_[about.name] = {type, shape, std::as_bytes(std::span(bytes_.back()))};
    std::erase_if(m.tensors, [&](const auto& t) { return t.name == about.name; });
    m.tensors.push_back(about);
    m.tensors.back().file = "tensors-00000.safetensors";
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
    return list("rows.0.expert", io::StoredType::i32, expert).list("rows.0.slot", io::StoredType::i32, slot);
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

  [[nodiscard]] diagnostics::CapturedTensor& about(const std::string& name) {
    for (auto& t : m.tensors) {
      if (t.name == name) return t;
    }
    throw std::out_of_range(name);
  }
  void remove(const std::string& name) {
    std::erase_if(m.tensors, [&](const auto& t) { return t.name == name; });
  }
  [[nodiscard]] const std::filesystem::path& write(const std::string& name) {
    path_ = folder_ / name;
    std::filesystem::create_directories(path_);
    io::write_safetensors(path_ / "tensors-00000.safetensors", tensors_);
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

  TempFolder folder_;
  std::filesystem::path path_;
  std::deque<std::string> bytes_;
  io::TensorMap tensors_;
};

}  // namespace minite::test_support
