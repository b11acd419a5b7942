#include "ops/code_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "formats/element_codes.h"

namespace minite::ops {
namespace {

/// Calls body(i) for every i < count whose code is `element.largest` but for its sign. Words of 8 bytes are
/// tested at once: few codes are.
template <class Body>
void for_largest(const uint8_t* codes, size_t count, const ElementCodes& element, bool nibbles,
                 const Body& body) {
  const auto spread = [&](uint64_t code) {
    return code * (nibbles ? 0x1111111111111111u : 0x0101010101010101u);
  };
  const int bits = nibbles ? 4 : 8;
  const size_t in_word = 64 / static_cast<size_t>(bits);
  const uint64_t ones = spread(1), mask = spread(element.magnitude_mask), largest = spread(element.largest);
  for (size_t begin = 0; begin < count; begin += in_word) {
    uint64_t word = 0;
    const size_t left = std::min(in_word, count - begin);
    std::memcpy(&word, codes + begin * static_cast<size_t>(bits) / 8,
                (left * static_cast<size_t>(bits) + 7) / 8);
    // 0 where a code is the largest; a field below the sign bit then borrows into it.
    const uint64_t difference = (word & mask) ^ largest;
    uint64_t found = ~((difference | (ones << (bits - 1))) - ones) & (ones << (bits - 1));
    for (; found != 0; found &= found - 1) {
      const size_t i = begin + static_cast<size_t>(std::countr_zero(found) / bits);
      if (i < count) body(i);
    }
  }
}

}  // namespace

ScaleStats scale_stats(const QTensor& q) {
  const int64_t stride = q.scale_stride();
  const int64_t rows_of_a_block = q.spec.blocks == BlockShape::tile ? q.spec.block_size() : 1;
  ScaleStats stats;
  for (int64_t r = 0; r < q.rows; r += rows_of_a_block) {
    for (int64_t b = 0; b < stride; ++b) {
      const float scale = block_scale_value(q.spec, q.block_scales[r * stride + b]);
      stats.zero += scale == 0.0f ? 1 : 0;
      stats.nan += std::isnan(scale) ? 1 : 0;
    }
    stats.blocks += stride;
  }
  return stats;
}

Clipped count_clipped(const QTensor& q, int64_t row, std::span<const float> x,
                      std::span<const float> decoded) {
  const Format& format_row = format(q.spec.format);
  const ElementCodes element = element_codes(format_row.element);
  const uint8_t* codes = q.codes + row * q.code_stride();
  const bool nibbles = format_row.bits == 4;
  Clipped count;
  for_largest(codes, x.size(), element, nibbles, [&](size_t i) {
    if (!std::isfinite(x[i])) return;
    const double value = std::fabs(double{x[i]}), held = std::fabs(double{decoded[i]});
    count.saturated += held < value ? 1 : 0;
    count.overflow += held > 0 && value * element.max > held * element.bound ? 1 : 0;
  });
  return count;
}

int64_t count_saturated(const QTensor& q, int64_t row, std::span<const float> x,
                        std::span<const float> decoded) {
  return count_clipped(q, row, x, decoded).saturated;
}

}  // namespace minite::ops
