#pragma once
// The linear layers of a folder as they are stored: codes with their scales, known by name, type and shape.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/quant_config.h"
#include "io/checkpoint_folder.h"
#include "ops/ops.h"

namespace minite::checkpoints {

/// Something wrong, and where. `tensor` is empty for a whole file.
struct Fault {
  std::string file, tensor, what;
};

/// Rows of a module that share one value of the outer scale.
struct Segment {
  int64_t begin = 0, rows = 0;
};

/// A quantized layer X [rows, cols], or [experts, rows, cols] with the experts as rows of one matrix.
struct StoredModule {
  std::string name;
  const Layout* layout = nullptr;
  Activations activations = Activations::a16;
  int64_t rows = 0, cols = 0;  ///< of elements; rows of all experts
  std::vector<int64_t> shape;  ///< of elements as a tensor: [M, K] or [E, M, K]
  const io::TensorInfo* codes = nullptr;
  const io::TensorInfo* scales = nullptr;
  std::vector<float> global;  ///< as stored: one a segment, or one a row; {} where the layout has none
  std::vector<float> input;   ///< the outer scale of activations; {}: none
  std::vector<Segment>
      segments;  ///< tile the rows; a single one where each row has an outer scale; {}: no outer scale

  [[nodiscard]] int64_t stored_bytes() const;
  [[nodiscard]] std::string tensor(std::string_view suffix) const { return name + std::string(suffix); }
};

/// A folder, its configuration and its modules. Everything that a module does not consume is in `plain`.
struct QuantizedFolder {
  io::CheckpointFolder folder;
  std::optional<QuantConfig> config;  ///< nothing: not quantized
  std::map<std::string, StoredModule> modules;
  std::vector<std::string> plain;  ///< sorted
  std::vector<Fault> faults;
};

/// What happens with a folder whose tensors and configuration disagree.
enum class OnFault : uint8_t { thrown, listed };

/// Opens a folder. Faults: a module that the configuration quantizes and is stored in BF16 (its name), one
/// that it leaves out and is stored in codes; codes without scales or outer scale, scales without codes;
/// shapes that do not fit; an outer scale that is not positive and finite. An outer scale may have one value,
/// one an expert, or (of a module that holds fused parts, "x.qkv_proj") one a part. Embeddings, norms and
/// other layers that are no Linear may be BF16 without being left out. Errors: as CheckpointFolder and
/// read_quant_config; corrupt_data for the first fault when they are thrown, with their number.
[[nodiscard]] QuantizedFolder open_quantized(const std::filesystem::path& folder, OnFault on_fault);

/// Values of a module, decoded in the order of its layout's convention: rows [begin, begin + y.rows) of all
/// experts' rows. y is bf16 or f32. Thread count does not matter.
void decode_rows(const Context& ctx, const StoredModule& module, int64_t begin, const TensorView& y);

/// The codes of a segment as ops read them; the views point into the file and into `module`.
[[nodiscard]] QTensor segment_codes(const StoredModule& module, size_t segment, float& multiplier,
                                    float& reciprocal);

/// The values of any tensor of a folder by its Hugging Face name, as if nothing were quantized: "X.weight" of
/// a quantized X is decoded, every other float tensor is read as io::load_floats() does. `y` has the rows and
/// columns of shape_of(). This is how a model loads a quantized folder.
void decode_tensor(const Context& ctx, const QuantizedFolder& folder, const std::string& name,
                   const TensorView& y);
/// Names and shapes of what decode_tensor() gives: plain float tensors, and X.weight of every module.
[[nodiscard]] std::map<std::string, std::vector<int64_t>> decoded_shapes(const QuantizedFolder& folder);

/// Whether a 2-D weight "X.weight" belongs to a linear layer that quantizers take: no embedding, norm, router
/// or head.
[[nodiscard]] bool is_quantizable(std::string_view module);

}  // namespace minite::checkpoints
