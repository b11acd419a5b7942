#pragma once
// What a stored byte of an element or of a block scale stands for, asked of the encoding.
#include <cstdint>

#include "minite/format.h"

namespace minite {

/// Codes of one element, as QTensor stores them (four bits, or one byte).
struct ElementCodes {
  uint8_t magnitude_mask = 0;  ///< all bits but the sign
  uint8_t largest = 0;         ///< magnitude of the largest finite value; NaN and infinity lie above
  float max = 0;               ///< that value, at block scale 1
  float bound = 0;             ///< max and half of the step below it: what no rounding brings back to max
};
/// For elements that formats() stores as codes; zeros for the others.
[[nodiscard]] ElementCodes element_codes(Element element);

/// Value of a block scale byte as the convention of `spec` reads it: ggml's E4M3 has neither sign nor NaN
/// (0x7F is 0), and its E8M0 byte 0xFF is 2^128, which is infinite here.
[[nodiscard]] float block_scale_value(const QuantSpec& spec, uint8_t byte);

/// Whether a block scale of `scale` encoding is 0; E8M0 has no zero.
[[nodiscard]] bool is_zero_scale(Element scale, uint8_t byte);
/// Whether it is NaN.
[[nodiscard]] bool is_nan_scale(Element scale, uint8_t byte);

}  // namespace minite
