#pragma once
// What is wrong with a quantized folder as a whole: its tensors against its configuration and each other.
#include <filesystem>
#include <vector>

#include "checkpoints/stored_module.h"

namespace minite::checkpoints {

/// The faults of open_quantized(), and: modules that servers fuse whose outer scales differ; outer scales
/// that are reciprocals where multipliers belong or the other way round, told by magnitude (an amax above
/// 43008); config.json and hf_quant_config.json that say different things; a configuration that cannot be
/// read. A folder without Hugging Face weights has none. Errors: as CheckpointFolder.
[[nodiscard]] std::vector<Fault> check_folder(const std::filesystem::path& folder);

}  // namespace minite::checkpoints
