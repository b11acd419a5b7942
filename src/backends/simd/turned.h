#pragma once
// Packed rows of b turned so that a lane is a row: what vectors over rows of b read.
#include "backends/simd/decode.h"
#include "backends/simd/tasks.h"
#include "backends/simd/transpose.h"

namespace minite::simd::MINITE_ISA {

/// Word j of 16 rows: [16 words][16 rows].
struct Words {
  alignas(64) float v[16][kLanes];
  [[nodiscard]] MINITE_INLINE vi operator[](int64_t j) const { return bits(load(v[j])); }
};

/// Turns `bytes` <= 64 bytes from `src` of each of `rows` <= 16 rows that are `stride` bytes apart; the rest
/// is zero. `rows` may be negative: none.
MINITE_INLINE void turn_words(const uint8_t* src, int64_t stride, int64_t rows, int64_t bytes, Words& out) {
  if (bytes == 64 && rows == kLanes) return transpose16_bytes(src, stride, out.v[0], kLanes);
  alignas(64) uint8_t piece[kLanes][64] = {};
  for (int64_t i = 0; i < rows; ++i) std::memcpy(piece[i], src + i * stride, static_cast<size_t>(bytes));
  transpose16_bytes(piece, 64, out.v[0], kLanes);
}

/// Codes of 128 elements from k0 of rows [r0, r0 + 16): word j holds elements 8 j to 8 j + 7, low nibble
/// first.
MINITE_INLINE void turn_codes(const QTensor& q, int64_t r0, int64_t k0, Words& out) {
  const int64_t stride = q.code_stride(), begin = k0 / 2;
  turn_words(q.codes + r0 * stride + begin, stride, min64(kLanes, q.rows - r0), min64(64, stride - begin),
             out);
}
/// Scale bytes of 64 blocks from block b0 on: word j holds blocks 4 j to 4 j + 3.
MINITE_INLINE void turn_scales(const QTensor& q, int64_t r0, int64_t b0, Words& out) {
  const int64_t stride = q.scale_stride();
  turn_words(q.block_scales + r0 * stride + b0, stride, min64(kLanes, q.rows - r0), min64(64, stride - b0),
             out);
}
/// Scales of block b of those 64, which belong to a tensor of `spec`.
MINITE_INLINE vf turned_scale(const Words& scales, int64_t b, const QuantSpec& spec) {
  const vi w = scales[b / 4];
  const vi byte = b % 4 == 0   ? w
                  : b % 4 == 1 ? shift_right<8>(w)
                  : b % 4 == 2 ? shift_right<16>(w)
                               : shift_right<24>(w);
  return decode_nvfp4_scale(byte & vi(0xFFu), spec);
}

}  // namespace minite::simd::MINITE_ISA
