#pragma once
// Statistics of one chunk: contiguous elements, eight lanes, element i in lane i mod 8.
#include <cstdint>
#include <optional>
#include <span>

#include "diagnostics/chunk_loops.h"
#include "diagnostics/tensor_stats.h"

namespace minite::diagnostics {

/// Statistics of `x`, or nothing when an element is NaN or infinite.
[[nodiscard]] std::optional<ValueStats> finite_values(std::span<const float> x);
[[nodiscard]] std::optional<ValueStats> finite_values(std::span<const bf16> x);

/// Codes of elements of `element` from `codes` on.
[[nodiscard]] ChunkCodes chunk_codes(const uint8_t* codes, Element element, bool nibbles);

struct ChunkLoss {
  CodeLoss loss;              ///< without `overflow` and without the sum of |decoded - x|
  bool may_overflow = false;  ///< false: no element overflows; true: count them
};
/// What `codes`, which decode to `decoded`, lose of `x`; nothing when a value or a decoded one is NaN or
/// infinite.
[[nodiscard]] std::optional<ChunkLoss> finite_codes(const ChunkCodes& codes, std::span<const float> x,
                                                    std::span<const float> decoded);
[[nodiscard]] std::optional<ChunkLoss> finite_codes(const ChunkCodes& codes, std::span<const bf16> x,
                                                    std::span<const float> decoded);

}  // namespace minite::diagnostics
