#pragma once
// Few rows times NVFP4 weights in the fma order, k ascending: packed weights go from memory to registers and
// nowhere else. A lane is a row of b. Sixteen rows of 64 bytes are turned as words, so that a vector holds 8
// codes of each of 16 rows; the codes then leave it from the low end, 4 bits at a time.
#include "backends/simd/gemm_pack.h"

namespace minite::simd::MINITE_ISA {

// Chains hide the fma latency: 4 vectors of one row are 16 products a cycle. Four rows fill the registers.
#ifdef __AVX512F__
inline constexpr int kGemvRows = 4;
inline constexpr int kGemvVectors = 4;
#else
inline constexpr int kGemvRows = 2;
inline constexpr int kGemvVectors = 2;
#endif
inline constexpr int64_t kGemvColumns = kGemvVectors * kLanes;
inline constexpr int64_t kGemvStep = 128;  ///< elements of a row in 64 bytes
inline constexpr int64_t kAhead = 6;       ///< steps between a prefetch and its use

/// The same place `kAhead` steps later; past the end of the rows, the start of the next ones.
MINITE_INLINE void prefetch_step(const QTensor& q, int64_t r0, int64_t k0) {
  const int64_t stride = q.code_stride();
  int64_t r = r0, byte = k0 / 2 + kAhead * 64;
  if (byte >= stride) {
    r += kGemvColumns;
    byte -= round_up(stride, 64);
  }
  if (r + kGemvColumns > q.rows || byte < 0 || byte >= stride) return;
  const auto* p = reinterpret_cast<const char*>(q.codes + r * stride + byte);
  for (int64_t i = 0; i < kGemvColumns; ++i) _mm_prefetch(p + i * stride, _MM_HINT_T0);
}

/// acc[m][v] continues over `count` elements, `k` of them in front in the 1024 of `scales`; rows of a are
/// kTileStride apart.
template <int kRows>
MINITE_INLINE void gemv_step(const Words (&codes)[kGemvVectors], const Words (&scales)[kGemvVectors],
                             int64_t k, const QuantSpec& spec, const float* a, int64_t count,
                             vf (&acc)[kRows][kGemvVectors]) {
  vf scale[kGemvVectors];
  for (int64_t j = 0; 8 * j < count; ++j) {
    vi word[kGemvVectors];
    for (int v = 0; v < kGemvVectors; ++v) {
      word[v] = codes[v][j];
      if (j % 2 == 0) scale[v] = turned_scale(scales[v], k / 16 + j / 2, spec);
    }
    const auto element = [&](int64_t i) {
      for (int v = 0; v < kGemvVectors; ++v) {
        const vf b = lookup16(kE2M1, word[v]) * scale[v];
        word[v] = shift_right<4>(word[v]);
        for (int m = 0; m < kRows; ++m) acc[m][v] = fma(vf(a[m * kTileStride + i]), b, acc[m][v]);
      }
    };
    if (count - 8 * j >= 8) {
      for (int i = 0; i < 8; ++i) element(8 * j + i);
    } else {
      for (int64_t i = 8 * j; i < count; ++i) element(i);
    }
  }
}

/// Chains of kRows rows of a against rows [col, col + kGemvColumns) of b into c[kRows][kGemvColumns]; `tile`
/// holds a tile of a.
template <int kRows>
void gemv_columns(const Operand& a, const QTensor& b, int64_t col, float* tile, float* c) {
  vf acc[kRows][kGemvVectors];
  Words codes[kGemvVectors], scales[kGemvVectors];
  const int64_t k = b.cols;
  for (int64_t k0 = 0; k0 < k; k0 += kGemvStep) {
    if (k0 % kDepth == 0) pack_tile(a, 0, kRows, k0, min64(kDepth, k - k0), tile);
    prefetch_step(b, col, k0);
    for (int64_t v = 0; v < kGemvVectors; ++v) {
      turn_codes(b, col + v * kLanes, k0, codes[v]);
      if (k0 % 1024 == 0) turn_scales(b, col + v * kLanes, k0 / 16, scales[v]);
    }
    gemv_step<kRows>(codes, scales, k0 % 1024, b.spec, tile + k0 % kDepth, min64(kGemvStep, k - k0), acc);
  }
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kGemvVectors; ++v) store(c + m * kGemvColumns + v * kLanes, acc[m][v]);
  }
}

}  // namespace minite::simd::MINITE_ISA
