#pragma once
// Small folders in BF16 and quantized, made by hand and damaged on purpose.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "checkpoints/convert.h"
#include "core/thread_pool.h"
#include "io/safetensors.h"
#include "support/temp_folder.h"
#include "support/tensor_file.h"

namespace minite::checkpoints {

using nlohmann::json;
namespace fs = std::filesystem;
using test_support::error_of;
using test_support::holds;
using test_support::raw;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;
using test_support::TensorFile;

/// A backend with two threads.
inline Context test_context() {
  static ThreadPool pool(2);
  return {&backend("auto"), &pool, nullptr, {}};
}

/// Values of a weight: uneven blocks, amax `scale` * 4 or less.
inline std::vector<bf16> weight_values(int64_t rows, int64_t cols, uint32_t seed, float scale = 1) {
  std::vector<bf16> result;
  uint32_t state = seed * 2654435761u + 12345u;
  for (int64_t i = 0; i < rows * cols; ++i) {
    state = state * 1664525u + 1013904223u;
    const float x = static_cast<float>(static_cast<int>(state >> 24) - 128) / 32.0f;
    result.push_back(bf16(scale * x * (i / 16 % 3 == 0 ? 0.1f : 1.0f)));
  }
  return result;
}

struct Matrix {
  std::string name;
  int64_t rows, cols;
  float scale;
};
/// One layer: q/k/v and gate/up of unlike amax, a router-free MLP, head and embedding.
inline std::vector<Matrix> layer_matrices() {
  const std::string l = "model.layers.0.";
  return {{l + "self_attn.q_proj", 32, 64, 1},  {l + "self_attn.k_proj", 16, 64, 0.125f},
          {l + "self_attn.v_proj", 16, 64, 3},  {l + "self_attn.o_proj", 64, 32, 0.5f},
          {l + "mlp.gate_proj", 96, 64, 0.25f}, {l + "mlp.up_proj", 96, 64, 2},
          {l + "mlp.down_proj", 64, 96, 1},     {"lm_head", 40, 64, 1}};
}

inline json small_config() {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"model_type", "qwen3"},
          {"vocab_size", 40},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 16},
          {"max_position_embeddings", 128},
          {"rope_theta", 1e6},
          {"rms_norm_eps", 1e-6},
          {"tie_word_embeddings", false},
          {"eos_token_id", 1}};
}

/// Tensors of a folder that can be changed before they are written.
struct HandFolder {
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::map<std::string, Tensor> tensors;
  json config = small_config();
  json hf_quant_config;

  void write(const fs::path& folder) const {
    fs::create_directories(folder);
    TensorFile file;
    for (const auto& [name, t] : tensors) file.add(name, t.dtype, t.shape, t.bytes);
    file.write(folder / "model.safetensors");
    spill(folder / "config.json", config.dump());
    if (!hf_quant_config.is_null()) spill(folder / "hf_quant_config.json", hf_quant_config.dump());
  }
  /// The tensors and configurations of a folder on disk.
  static HandFolder read(const fs::path& path) {
    HandFolder result;
    const io::CheckpointFolder folder(path);
    for (const auto& [name, entry] : folder.tensors())
      result.tensors[name] = {
          std::string(io::stored_type(entry.info.type).name), entry.info.shape,
          std::string(reinterpret_cast<const char*>(entry.info.bytes.data()), entry.info.bytes.size())};
    result.config = json::parse(slurp(path / "config.json"));
    if (fs::exists(path / "hf_quant_config.json"))
      result.hf_quant_config = json::parse(slurp(path / "hf_quant_config.json"));
    return result;
  }
  void set_f32(const std::string& name, const std::vector<float>& values, std::vector<int64_t> shape = {}) {
    tensors[name] = {"F32", std::move(shape), raw(values)};
  }
};

inline HandFolder dense_folder() {
  HandFolder folder;
  uint32_t seed = 1;
  for (const Matrix& m : layer_matrices())
    folder.tensors[m.name + ".weight"] = {
        "BF16", {m.rows, m.cols}, raw(weight_values(m.rows, m.cols, seed++, m.scale))};
  folder.tensors["model.embed_tokens.weight"] = {"BF16", {40, 64}, raw(weight_values(40, 64, seed++))};
  for (const char* norm : {"model.norm.weight", "model.layers.0.input_layernorm.weight",
                           "model.layers.0.post_attention_layernorm.weight"})
    folder.tensors[norm] = {"BF16", {64}, raw(std::vector<bf16>(64, bf16(1.0f)))};
  for (const char* norm :
       {"model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.k_norm.weight"})
    folder.tensors[norm] = {"BF16", {16}, raw(std::vector<bf16>(16, bf16(1.0f)))};
  return folder;
}

/// Options of convert to `to`, in the container's own convention.
inline ConvertOptions options_to(Container to, FormatId id = FormatId::nvfp4) {
  ConvertOptions options;
  options.to = to;
  options.spec.format = id;
  options.spec.outer = format(id).outer_scale ? OuterScale::tensor : OuterScale::none;
  if (const Layout* layout = find_layout(to, id, options.spec.outer))
    options.spec.convention = layout->convention;
  return options;
}
/// 4-bit activations: an amax for every linear layer.
inline ConvertOptions with_input_amax(ConvertOptions options) {
  options.activations = Activations::a4;
  float amax = 1.5f;
  for (const Matrix& m : layer_matrices()) options.input_amax[m.name] = amax += 0.3f;
  return options;
}

inline std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = slurp(entry.path());
  return files;
}

}  // namespace minite::checkpoints
