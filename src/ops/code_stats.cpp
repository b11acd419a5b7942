#include "ops/code_stats.h"

#include <cmath>

#include "formats/element_codes.h"

namespace minite::ops {

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

int64_t count_saturated(const QTensor& q, int64_t row, std::span<const float> x,
                        std::span<const float> decoded) {
  const Format& format_row = format(q.spec.format);
  const ElementCodes element = element_codes(format_row.element);
  const uint8_t* codes = q.codes + row * q.code_stride();
  const bool nibbles = format_row.bits == 4;
  int64_t count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const int code = nibbles ? codes[i / 2] >> (4 * (i % 2)) : codes[i];
    const bool largest = (code & element.magnitude_mask) == element.largest;
    count += largest && std::isfinite(x[i]) && std::fabs(decoded[i]) < std::fabs(x[i]) ? 1 : 0;
  }
  return count;
}

}  // namespace minite::ops
