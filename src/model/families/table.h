#pragma once
// The table of model families. A family is one file here and one row in table.cpp.
#include <span>
#include <string_view>
#include <vector>

#include "minite/model.h"

namespace minite {

/// A config.json field that can ask for a computation that a family does not implement. The field may be
/// absent or hold `allowed` (a list: hold it in every place); any other value is refused by name.
struct FieldLimit {
  std::string_view field;
  std::string_view allowed;  ///< JSON text: "false", "null", "\"silu\""
  std::string_view why;      ///< "biases in the attention projections are not implemented"
};

/// One row.
struct ModelFamily {
  std::string_view name;             ///< ModelConfig::family
  std::string_view hf_architecture;  ///< in config.json's `architectures`
  std::string_view hf_model_type;    ///< config.json's `model_type`
  std::span<const FieldLimit> (*limits)();
  /// Linear layers of a valid configuration, in execution order.
  std::vector<LinearModule> (*linear_modules)(const ModelConfig& config);
};

/// All families in table order.
[[nodiscard]] std::span<const ModelFamily> model_families();
/// The row named `name`; throws not_found with the nearest name.
[[nodiscard]] const ModelFamily& model_family(std::string_view name);

/// Qwen3 dense (families/qwen3.cpp).
[[nodiscard]] std::span<const FieldLimit> qwen3_limits();
[[nodiscard]] std::vector<LinearModule> qwen3_linear_modules(const ModelConfig& config);

}  // namespace minite
