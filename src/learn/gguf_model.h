#pragma once
// A GGUF file as a model of ours: its configuration, and its tensors under the names and in the row order of
// Hugging Face, decoded to BF16.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "minite/model.h"
#include "minite/tensor.h"

namespace minite::learn {

/// Boolean that says that NVFP4 tensors without a sidecar `.scale` mean a scale of 1. Without it they are
/// refused: a file that lost its sidecars reads as noise.
inline constexpr const char* kNvfp4UnitScaleKey = "minite.nvfp4_unit_scale";

/// A tensor of the model: some rows of a tensor of the file.
struct GgufModelTensor {
  const io::GgufTensor* source = nullptr;
  std::string source_name;
  int64_t first_row = 0;       ///< of `source`
  int64_t rows = 0, cols = 0;  ///< rows is 1 for a vector
  int64_t heads = 0;           ///< rows of so many heads are interleaved for ggml's rotation; 0: as they are
  float scale = 1;             ///< of the sidecar: every value is multiplied by it in FP32
};

class GgufModel {
 public:
  /// Architectures llama, qwen3 and qwen3moe. Errors: those of GgufFile; not_found (a value); unsupported, by
  /// name (an architecture, a kind of rotary scaling, a tensor that no model of ours has, NVFP4 without its
  /// scale); invalid_argument (values that contradict each other).
  explicit GgufModel(const std::filesystem::path& path);

  [[nodiscard]] const io::GgufFile& file() const { return file_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// By name: "model.layers.0.self_attn.q_proj.weight". lm_head.weight is absent when embeddings are tied.
  [[nodiscard]] const std::map<std::string, GgufModelTensor>& tensors() const { return tensors_; }
  /// Values of the tensor `name`, [rows, cols], decoded in FP32 and rounded once to BF16. Errors: not_found;
  /// invalid_argument when `out` has another size.
  void read(const std::string& name, std::span<bf16> out) const;

 private:
  void map_tensors();
  void add(const std::string& source_name, const io::GgufTensor& source);

  io::GgufFile file_;
  ModelConfig config_;
  std::map<std::string, GgufModelTensor> tensors_;
};

}  // namespace minite::learn
