#pragma once
// Decoding of GEMM operands into the FP32 tiles that the kernels read. Codes times block scales are exact in
// FP32, so packing adds no rounding; outer scales stay out.
//
//   A tile   [rows][kTileStride]     rows of a, kDepth columns at a time
//   B panel  [depth][kPanel]         kPanel rows of b, transposed; rows past the end are zero
#include "backends/simd/decode.h"
#include "backends/simd/panel.h"
#include "backends/simd/turned.h"
#include "ops/args.h"

namespace minite::simd::MINITE_ISA {

inline constexpr int64_t kDepth = 512;  ///< depth of a tile: 12 rows are 24 KiB, half of L1
/// Row stride of a tile in floats: past a multiple of 4 KiB, so that rows do not share cache sets.
inline constexpr int64_t kTileStride = kDepth + 16;

template <class T>
MINITE_INLINE void widen_row(const T* src, int64_t n, float* dst) {
  for_lanes(n, [&](int64_t i, int64_t c) { store_n(dst + i, load_n(src + i, c), c); });
}

/// Columns [k0, k0 + depth) of row `r` of an operand whose rows are contiguous.
MINITE_INLINE void read_row(const Operand& x, int64_t r, int64_t k0, int64_t depth, float* out) {
  if (x.quantized()) return decode_row(x.q, r, k0, k0 + depth, out);
  if (x.dense.dtype == DType::bf16) return widen_row(x.dense.row<const bf16>(r) + k0, depth, out);
  widen_row(x.dense.row<const float>(r) + k0, depth, out);
}

/// Elements [r0, r0 + n) of contracted index `k` of an operand stored [K, R].
MINITE_INLINE void read_column(const Operand& x, int64_t k, int64_t r0, int64_t n, float* out) {
  if (x.dense.dtype == DType::bf16) return widen_row(x.dense.row<const bf16>(k) + r0, n, out);
  widen_row(x.dense.row<const float>(k) + r0, n, out);
}

MINITE_INLINE void zero(float* p, int64_t n) {
  __builtin_memset(p, 0, static_cast<size_t>(n) * sizeof(float));
}

/// Rows [r0, r0 + rows) of a, depth columns from k0, into a tile.
MINITE_INLINE void pack_tile(const Operand& a, int64_t r0, int64_t rows, int64_t k0, int64_t depth,
                             float* tile) {
  if (a.along == Orientation::rows) {
    for (int64_t r = 0; r < rows; ++r) read_row(a, r0 + r, k0, depth, tile + r * kTileStride);
    return;
  }
  alignas(64) float block[kLanes * kLanes], turned[kLanes * kLanes];
  for (int64_t r = 0; r < rows; r += kLanes) {
    const int64_t nr = rows - r < kLanes ? rows - r : kLanes;
    for (int64_t k = 0; k < depth; k += kLanes) {
      const int64_t nk = depth - k < kLanes ? depth - k : kLanes;
      for (int64_t i = 0; i < nk; ++i) read_column(a, k0 + k + i, r0 + r, nr, block + i * kLanes);
      transpose16(block, kLanes, turned, kLanes);
      for (int64_t i = 0; i < nr; ++i) {
        store_n(tile + (r + i) * kTileStride + k, load(turned + i * kLanes), nk);
      }
    }
  }
}

/// pack_panel for rows of NVFP4 codes: turned as packed words, decoded in place; k0 is a multiple of 128.
MINITE_INLINE void pack_panel_nvfp4(const QTensor& q, int64_t r0, int64_t k0, int64_t depth, float* panel) {
  Words codes, scales;
  for (int64_t v = 0; v < kPanelVectors; ++v) {
    const int64_t row = r0 + v * kLanes;
    for (int64_t k = 0; k < depth; k += 128) {
      turn_codes(q, row, k0 + k, codes);
      if (k % 1024 == 0) turn_scales(q, row, (k0 + k) / 16, scales);
      float* out = panel + k * kPanel + v * kLanes;
      for (int64_t j = 0; j < 16 && k + 8 * j < depth; ++j) {
        const vf scale = turned_scale(scales, k % 1024 / 16 + j / 2, q.spec);
        vi word = codes[j];
        for (int64_t i = 8 * j; i < min64(8 * j + 8, depth - k); ++i) {
          store(out + i * kPanel, lookup16(kE2M1, word) * scale);
          word = shift_right<4>(word);
        }
      }
    }
  }
}

/// Rows [r0, r0 + kPanel) of b, depth columns from k0, into a panel. `rows` is b's number of rows, `temp`
/// holds 16 tile rows.
MINITE_INLINE void pack_panel(const Operand& b, int64_t r0, int64_t rows, int64_t k0, int64_t depth,
                              float* temp, float* panel) {
  if (b.format() == FormatId::nvfp4) return pack_panel_nvfp4(b.q, r0, k0, depth, panel);
  if (b.along == Orientation::columns) {
    const int64_t n = rows - r0 < kPanel ? rows - r0 : kPanel;
    for (int64_t k = 0; k < depth; ++k) {
      if (n < kPanel) zero(panel + k * kPanel, kPanel);
      read_column(b, k0 + k, r0, n, panel + k * kPanel);
    }
    return;
  }
  for (int64_t v = 0; v < kPanel; v += kLanes) {
    for (int64_t i = 0; i < kLanes; ++i) {
      float* row = temp + i * kTileStride;
      if (r0 + v + i < rows) {
        read_row(b, r0 + v + i, k0, depth, row);
      } else {
        zero(row, depth);
      }
    }
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes)
      transpose16(temp + k, kTileStride, panel + k * kPanel + v, kPanel);
    for (; k < depth; ++k) {
      for (int64_t i = 0; i < kLanes; ++i) panel[k * kPanel + v + i] = temp[i * kTileStride + k];
    }
  }
}

}  // namespace minite::simd::MINITE_ISA
