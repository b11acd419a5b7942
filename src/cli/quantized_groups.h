#pragma once
// Quantized tensors as files store them: codes with scales beside them, known by their names and types.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/tensor_set.h"
#include "minite/format.h"

namespace minite::cli {

/// One way to store a quantized tensor.
struct StorageScheme {
  std::string_view name;
  std::string_view codes, scales, outer;  ///< what follows the tensor's name; no outer: empty
  io::StoredType codes_type, scales_type;
  std::string_view format;  ///< of formats(), or empty: as minite.spec in the metadata says
  int bits, block;          ///< of an element; elements of a block
  Element scale;            ///< what a scale byte encodes
  bool outer_required;      ///< whatever the metadata says
  bool codes_alone;  ///< codes of this name and type are always quantized: without scales they are a fault
  bool blocked;      ///< codes are [.., K/block, bytes of a block]
  std::string_view activation = "";  ///< an outer scale of activations; none: empty
  bool tiled = false;                ///< scales may be in 128x4 tiles, which only the metadata tells
};
[[nodiscard]] std::span<const StorageScheme> storage_schemes();

/// A quantized tensor that was found.
struct QuantizedGroup {
  const StorageScheme* scheme;
  std::string name;
  std::string format;          ///< of formats(), or what the scheme calls it
  std::vector<int64_t> shape;  ///< of elements
  const TensorSpace::Entry* codes;
  const TensorSpace::Entry* scales;
  const TensorSpace::Entry* outer;       ///< nullptr: none
  const TensorSpace::Entry* activation;  ///< nullptr: none
};

/// The groups of a space. Sidecars that are missing, belong to nothing or do not fit are added to `faults`,
/// and their groups left out.
[[nodiscard]] std::vector<QuantizedGroup> find_groups(const TensorSpace& space, std::vector<Fault>& faults);

/// Faults inside the bytes: NaN and all-zero scales, outer scales that are not above 0, values that are not
/// finite in any float tensor. Reads everything.
void check_values(const TensorSpace& space, const std::vector<QuantizedGroup>& groups,
                  std::vector<Fault>& faults);

}  // namespace minite::cli
