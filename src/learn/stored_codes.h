#pragma once
// The codes of a quantized folder in place of those that the engine would make of BF16 weights: what another
// tool converted, computed with as it is.
#include <filesystem>

#include "checkpoints/stored_module.h"
#include "model/weights.h"

namespace minite::learn {

class StoredCodes final : public CodesSource {
 public:
  /// Errors: as checkpoints::open_quantized().
  explicit StoredCodes(const std::filesystem::path& folder);

  /// A unit whose modules the folder holds in codes of the format that is asked for. Parts of a fused unit
  /// lie one below the other; an outer scale of a module serves every row where the unit has one a row.
  /// Amaxes are 2688 times the outer scale, rounded: products do not read them. False when no part is in
  /// codes. Errors, with the module's name: invalid_argument when the format or the shape differs, only some
  /// parts are in codes, outer scales of parts differ where the unit has one, or the unit has 2D blocks and
  /// the folder does not.
  bool fill(const ParameterSpec& parameter, int64_t unit, const QTensor& to) const override;

  [[nodiscard]] const checkpoints::QuantizedFolder& folder() const { return folder_; }

 private:
  struct Part {
    std::string name;
    const checkpoints::StoredModule* module = nullptr;  ///< nullptr: not in codes
    int64_t first = 0, rows = 0;                        ///< of the module
    int64_t at = 0;                                     ///< row of the unit
  };
  [[nodiscard]] std::vector<Part> parts_of(const ParameterSpec& parameter, int64_t unit) const;
  void copy(const Part& part, const QTensor& to) const;

  std::filesystem::path path_;
  checkpoints::QuantizedFolder folder_;
};

}  // namespace minite::learn
