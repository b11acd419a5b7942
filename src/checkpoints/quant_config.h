#pragma once
// What config.json and hf_quant_config.json say about quantization, read and written.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/layout.h"
#include "checkpoints/name_list.h"

namespace minite::checkpoints {

/// Modules that are stored in one way.
struct QuantGroup {
  const Layout* layout = nullptr;
  Activations activations = Activations::a16;
  NameList targets;  ///< of plain or compressed-tensors kind
};

/// The configuration of a quantized folder.
struct QuantConfig {
  Container container = Container::plain;
  std::vector<QuantGroup> groups;  ///< the first that matches a module counts
  NameList ignore;                 ///< what is left out, whatever the groups say
  nlohmann::json kv_cache;         ///< kv_cache_scheme or kv_cache_quant_algo as it stands; null: none
  std::string origin;              ///< the file
  std::string label;               ///< "modelopt NVFP4", "compressed-tensors nvfp4-pack-quantized"

  /// The group of a module; nullptr when it is left out or no group takes it.
  [[nodiscard]] const QuantGroup* group_of(const std::string& module) const;
};

/// The configuration of `folder`, from config.json's quantization_config or else hf_quant_config.json;
/// nothing when neither is there. recipe.yaml does not count. Errors: corrupt_data (of another type, or a
/// required field is missing), unsupported (another method, algorithm or scheme, by name; ModelOpt's
/// W4A8_NVFP4_FP8, whose weight_scale_2 is amax / 448 and not amax / 2688).
[[nodiscard]] std::optional<QuantConfig> read_quant_config(const std::filesystem::path& folder);
/// The same from the two documents; null: the file is not there.
[[nodiscard]] std::optional<QuantConfig> parse_quant_config(const nlohmann::json& config,
                                                            const nlohmann::json& hf_quant_config,
                                                            const std::string& folder);

/// What a converted folder says.
struct QuantClaim {
  const Layout* layout = nullptr;
  Activations activations = Activations::a16;
  std::vector<std::string> ignore;  ///< exact names of linear layers that are not quantized
  nlohmann::json kv_cache;          ///< as in QuantConfig
};
/// config.json's `quantization_config`.
[[nodiscard]] nlohmann::ordered_json config_section(const QuantClaim& claim);
/// hf_quant_config.json, which ModelOpt's loaders want; null for other containers.
[[nodiscard]] nlohmann::ordered_json hf_quant_document(const QuantClaim& claim);

}  // namespace minite::checkpoints
