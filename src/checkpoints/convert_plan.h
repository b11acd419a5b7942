#pragma once
// What convert() will write: units of tensors that are made together.
#include "checkpoints/convert.h"
#include "io/sharded_folder.h"

namespace minite::checkpoints {

/// A tensor or a module of the source inside a unit.
struct Member {
  std::string name;                       ///< module, or tensor of a copy
  std::string out;                        ///< name of the tensor that is copied to
  const io::TensorInfo* dense = nullptr;  ///< BF16 (or F16, F32, F64) weight
  const StoredModule* stored = nullptr;   ///< codes
  int64_t rows = 0, cols = 0;
  std::vector<float> global;  ///< of the output, where it is known before the codes are
  std::vector<float> input;   ///< outer scale of activations as the output stores it; {}: none
  std::vector<double> ratio;  ///< of each segment of `stored`: own outer scale / shared; {}: untouched
};

/// How the tensors of a unit are made.
enum class Making : uint8_t { copy, quantize, transfer, decode };

struct ConvertUnit {
  Making making = Making::copy;
  std::vector<Member> members;
  io::ShardUnit outputs;
};

/// A number that the conversion rounds, and what it was.
struct Original {
  std::string tensor;  ///< of the output
  int64_t index = 0;
  float value = 0;  ///< of the source, whose reciprocal is stored
};

struct ConvertPlan {
  ConvertOptions options;
  QuantizedFolder source;
  const Layout* layout = nullptr;  ///< of the output; nullptr for a plain one
  Activations activations = Activations::a16;
  std::vector<ConvertUnit> units;
  std::vector<std::string> ignore;  ///< linear layers that stay BF16, for the configuration
  std::vector<TensorFate> fates;
  std::vector<Original> originals;
};

/// Errors: as convert().
[[nodiscard]] ConvertPlan plan_conversion(const std::filesystem::path& source, const ConvertOptions& options);

/// originals in the folder's conversion.json, by tensor; none without the file. A damaged file is
/// corrupt_data.
[[nodiscard]] std::map<std::string, std::vector<std::optional<float>>> read_originals(
    const std::filesystem::path& folder);

}  // namespace minite::checkpoints
