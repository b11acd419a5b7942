#pragma once
// Quantized Hugging Face folders from BF16 ones, BF16 ones from quantized, and quantized ones renamed.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/stored_module.h"

namespace minite::checkpoints {

/// What happens with modules that servers fuse and whose outer scales differ, when only codes are there.
enum class FusedPolicy : uint8_t {
  refuse,   ///< name the group and stop
  rescale,  ///< one outer scale, the largest; block scales become e4m3(fl(scale * fl(own / largest)))
  keep,     ///< leave them: for loaders that do not fuse
};
[[nodiscard]] std::string_view to_string(FusedPolicy policy);
/// Error: not_found with the nearest name.
[[nodiscard]] FusedPolicy parse_fused_policy(std::string_view name);

struct ConvertOptions {
  Container to = Container::plain;
  /// Of weights that are quantized here: format, convention, blocks, search. Outer: tensor or row.
  QuantSpec spec;
  std::optional<Activations> activations;  ///< nothing: as the source, or what needs no calibration
  std::vector<std::string> ignore;         ///< modules to leave in BF16; NameList of plain kind
  FusedPolicy fused = FusedPolicy::refuse;
  std::map<std::string, float> input_amax;  ///< by module: the largest |x| of its input in calibration
  int64_t shard_bytes = int64_t{5} << 30;
};

/// What became of a tensor of the source.
enum class Fate : uint8_t { copied, renamed, quantized, decoded, rescaled, recomputed, dropped };
[[nodiscard]] std::string_view to_string(Fate fate);

struct TensorFate {
  std::string from, to;  ///< `to` is empty for a dropped tensor
  Fate fate = Fate::copied;
  std::string note;  ///< why, where that is not plain
};

/// What setting a module's block scales to another outer scale did.
struct RescaleLoss {
  std::string module;
  double ratio = 1;  ///< own outer scale / the shared one
  int64_t blocks = 0;
  int64_t underflows = 0;        ///< scales that became 0
  double signal = 0, noise = 0;  ///< sums of squares of values, and of their changes
  [[nodiscard]] double relative_l2() const;
};

struct ConvertReport {
  std::string from, to;  ///< layouts in words
  std::vector<TensorFate> tensors;
  std::vector<RescaleLoss> rescaled;
  int64_t inexact_globals = 0;  ///< outer scales whose reciprocal does not give them back; kept in originals
  int64_t source_bytes = 0, bytes = 0;
  int64_t shards = 0, kept_shards = 0;         ///< kept: from an interrupted conversion
  std::vector<std::string> files, left_files;  ///< of the folder: copied, and not
};

using ConvertProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

/// Converts `source` into the folder `target`, which must not exist; written shard by shard in TARGET.partial
/// (io/sharded_folder.h). The bytes depend on the source and the options only. What is quantized here is a
/// unit together where servers fuse it (q/k/v, gate/up, an expert's gate/up): its parts share an outer scale.
/// Errors: as open_quantized(); invalid_argument that names the tensor: K no multiple of the block, packed
/// experts, 4-bit activations without a calibrated scale, unequal outer scales in a fused group; unsupported:
/// a layout that the container has not.
ConvertReport convert(const Context& ctx, const std::filesystem::path& source,
                      const std::filesystem::path& target, const ConvertOptions& options,
                      const ConvertProgress& progress = {});

/// The folder's file with what was kept beside the weights: numbers that a conversion rounded.
inline constexpr const char* kConversionName = "conversion.json";

}  // namespace minite::checkpoints
