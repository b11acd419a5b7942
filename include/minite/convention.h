#pragma once
// The arithmetic conventions of quantized formats: one row of conventions() for each convention and family of
// formats that it knows.
#include <cstdint>
#include <span>
#include <string_view>

#include "minite/format.h"

namespace minite {

/// What a convention stores beside codes and block scales, and decodes with.
enum class StoredGlobal : uint8_t { none, amax, multiplier, reciprocal };

/// What a product does with its sum before bias and accumulation. A_x, A_w are the operands' outer amaxes.
enum class Epilogue : uint8_t {
  minite,  ///< fl(fl(acc * s_row) * s_col) with the outer multipliers; models use this one
  te,      ///< acc * fl(fl(A_x * A_w) / R), R = 36 * scale_max * scale_max' (7225344): Transformer Engine's
           ///< reference
};
[[nodiscard]] std::string_view to_string(Epilogue epilogue);

/// A set of enumerators of one enum, as bits.
template <class Enum>
struct EnumSet {
  uint64_t bits = 0;
  constexpr EnumSet() = default;
  template <class... More>
  constexpr explicit EnumSet(Enum first, More... more) : bits((bit(first) | ... | bit(more))) {}
  /// All from `first` to `last`, both included, in the order of the enum.
  static constexpr EnumSet from_to(Enum first, Enum last) {
    EnumSet set;
    set.bits = (bit(last) - bit(first)) | bit(last);
    return set;
  }
  [[nodiscard]] constexpr bool has(Enum x) const { return (bits & bit(x)) != 0; }

 private:
  static constexpr uint64_t bit(Enum x) { return uint64_t{1} << static_cast<uint32_t>(x); }
};

/// One convention on one family of formats. fl() is one FP32 operation; a is the amax of a block, A that of
/// the outer scale's domain, d the block scale's value, q a code's value.
struct ConventionRow {
  Convention id;
  EnumSet<FormatId> formats;
  StoredGlobal global;
  EnumSet<OuterScale> outers;
  EnumSet<ScaleSearch> searches;
  bool tiles;                  ///< 2D blocks are possible
  std::string_view scale;      ///< from amaxes to the scale byte
  std::string_view code;       ///< from an element to its code, with ties
  std::string_view decode;     ///< in this order
  std::string_view epilogue;   ///< of the reference product; acc is the sum of q d q' d'
  std::string_view exception;  ///< zero, underflow and non-finite handling in words
  std::string_view nonfinite;  ///< where what it does with infinities and NaN is known from
  std::string_view peer;       ///< whose bytes these are, with its version
};

/// All rows; those of a convention are together, in Convention order.
[[nodiscard]] std::span<const ConventionRow> conventions();
/// The row of `id` for `format`, nullptr when the convention does not know the format.
[[nodiscard]] const ConventionRow* find_convention(Convention id, FormatId format);
/// The convention named `name`; throws not_found and offers the nearest name.
[[nodiscard]] Convention parse_convention(std::string_view name);

[[nodiscard]] std::string_view to_string(StoredGlobal global);

}  // namespace minite
