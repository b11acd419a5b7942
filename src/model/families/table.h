#pragma once
// The table of model families. A family is one file here and one row in table.cpp.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minite/model.h"

namespace minite {

/// A config.json field that can ask for a computation that a family does not implement. The field may be
/// absent, null or hold `allowed` (a list: hold it in every place); any other value is refused by name.
struct FieldLimit {
  std::string_view field;
  std::string_view allowed;  ///< JSON text: "false", "null", "\"silu\""
  std::string_view why;      ///< "biases in the attention projections are not implemented"
};

/// How a parameter starts when a model is trained from scratch.
enum class Init : uint8_t { normal, residual, ones };  ///< N(0, 0.02); N(0, 0.02 / sqrt(2 layers)); 1

/// A tensor of a checkpoint and how many rows of a parameter it fills.
struct CheckpointPiece {
  std::string name;
  int64_t rows = 0;
};

/// One parameter: a matrix (or a vector with rows = 1), possibly fused from several checkpoint tensors that
/// lie one after the other along the rows.
struct ParameterSpec {
  std::string name;  ///< "embed", "layers.0.qkv", "layers.0.attn_norm", "final_norm", "lm_head"
  int64_t rows = 0;
  int64_t cols = 0;
  Init init = Init::normal;
  std::vector<CheckpointPiece> pieces;
  int64_t units = 1;  ///< quantization units: equal runs of rows, one an expert
};

/// What follows attention in every layer.
enum class MlpKind : uint8_t { gated, experts };

/// One row.
struct ModelFamily {
  std::string_view name;             ///< ModelConfig::family
  std::string_view hf_architecture;  ///< in config.json's `architectures`
  std::string_view hf_model_type;    ///< config.json's `model_type`
  MlpKind mlp;        ///< experts: config.json has the fields of ModelConfig::num_experts and on
  bool qk_norm;       ///< whether every q and k head has an RMSNorm
  double rope_theta;  ///< where config.json names none, as Transformers has it; 0: it must name one
  std::span<const FieldLimit> (*limits)();
  /// Linear layers of a valid configuration, in execution order.
  std::vector<LinearModule> (*linear_modules)(const ModelConfig& config);
  /// Parameters in a fixed order; without lm_head when embeddings are tied.
  std::vector<ParameterSpec> (*parameters)(const ModelConfig& config);
};

/// All families in table order.
[[nodiscard]] std::span<const ModelFamily> model_families();
/// The row named `name`; throws not_found with the nearest name.
[[nodiscard]] const ModelFamily& model_family(std::string_view name);

/// The gated MLP in every layer (families/decoder_parts.cpp).
[[nodiscard]] std::vector<LinearModule> gated_modules(const ModelConfig& config);
[[nodiscard]] std::vector<ParameterSpec> gated_weights(const ModelConfig& config);

/// Qwen3 dense (families/qwen3.cpp) and Llama (families/llama.cpp).
[[nodiscard]] std::span<const FieldLimit> qwen3_limits();
[[nodiscard]] std::span<const FieldLimit> llama_limits();

/// Qwen3 mixture of experts (families/qwen3_moe.cpp).
[[nodiscard]] std::span<const FieldLimit> qwen3_moe_limits();
[[nodiscard]] std::vector<LinearModule> qwen3_moe_linear_modules(const ModelConfig& config);
[[nodiscard]] std::vector<ParameterSpec> qwen3_moe_parameters(const ModelConfig& config);

}  // namespace minite
