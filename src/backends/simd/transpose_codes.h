#pragma once
// 16x16 tiles of 4-bit or 8-bit codes, transposed in registers: the bytes of quantizing a 2D tile the other
// way.
#include <cstring>

#include "backends/simd/tasks.h"

namespace minite::simd::MINITE_ISA {

inline constexpr int64_t kCodeTile = 16;

/// The first `n` bytes at `p` (n <= 16), zeros behind them.
MINITE_INLINE __m128i load_bytes(const uint8_t* p, int64_t n) {
  alignas(16) uint8_t bytes[16] = {};
  std::memcpy(bytes, p, static_cast<size_t>(n));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
}
MINITE_INLINE void store_bytes(uint8_t* p, __m128i x, int64_t n) {
  alignas(16) uint8_t bytes[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(bytes), x);
  std::memcpy(p, bytes, static_cast<size_t>(n));
}

/// 8 bytes of two codes, the first in the low nibble, as 16 bytes of one.
MINITE_INLINE __m128i spread_nibbles(__m128i x) {
  const __m128i low = _mm_set1_epi8(15);
  return _mm_unpacklo_epi8(_mm_and_si128(x, low), _mm_and_si128(_mm_srli_epi16(x, 4), low));
}
/// The inverse.
MINITE_INLINE __m128i join_nibbles(__m128i x) {
  const __m128i pairs = _mm_maddubs_epi16(x, _mm_set1_epi16(0x1001));  // low + 16 * high
  return _mm_packus_epi16(pairs, pairs);
}

/// x[i] byte j becomes x[j] byte i. A stage interleaves rows i and i + 8; four of them are the transpose.
MINITE_INLINE void transpose_bytes(__m128i (&x)[16]) {
  __m128i t[16];
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = _mm_unpacklo_epi8(x[i], x[i + 8]);
      t[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[i + 8]);
    }
    for (int i = 0; i < 16; ++i) x[i] = t[i];
  }
}

/// Codes of the tile that begins at (r0, c0) of q, into out.
template <int kBits>
MINITE_INLINE void transpose_tile(const QTensor& q, const QTensor& out, int64_t r0, int64_t c0) {
  const int64_t rows = min64(kCodeTile, q.rows - r0), cols = min64(kCodeTile, q.cols - c0);
  const auto bytes = [](int64_t n) { return kBits == 4 ? (n + 1) / 2 : n; };
  __m128i x[16];
  for (int64_t i = 0; i < 16; ++i) {
    if (i >= rows) {
      x[i] = _mm_setzero_si128();
      continue;
    }
    x[i] = load_bytes(q.codes + (r0 + i) * q.code_stride() + c0 * kBits / 8, bytes(cols));
    if (kBits == 4) x[i] = spread_nibbles(x[i]);
  }
  transpose_bytes(x);
  for (int64_t i = 0; i < cols; ++i) {
    if (kBits == 4) x[i] = join_nibbles(x[i]);
    store_bytes(out.codes + (c0 + i) * out.code_stride() + r0 * kBits / 8, x[i], bytes(rows));
  }
}

/// Block scales of the same tile; a block of more than 16 elements is written by its first tile along a row
/// of out.
MINITE_INLINE void transpose_tile_scale(const QTensor& q, const QTensor& out, int64_t r0, int64_t c0) {
  const int64_t block = q.spec.block_size();
  if (r0 % block != 0) return;
  const uint8_t* from = q.block_scales + r0 * q.scale_stride();
  for (int64_t c = c0; c < min64(c0 + kCodeTile, q.cols); ++c)
    out.block_scales[c * out.scale_stride() + r0 / block] = from[c / block];
}

}  // namespace minite::simd::MINITE_ISA
