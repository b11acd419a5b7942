#pragma once
// Columns to codes: a lane is a column of x and a row of the output; blocks run down the rows. Rows past the
// end count as zeros.
#include "backends/simd/quantize_row.h"
#include "backends/simd/transpose.h"

namespace minite::simd::MINITE_ISA {

/// Sixteen or fewer columns of x from `column` on.
template <class T>
struct Strip {
  const TensorView& x;
  int64_t column, lanes;

  [[nodiscard]] MINITE_INLINE vf row(int64_t r) const { return load_n(x.row<const T>(r) + column, lanes); }
  /// Largest magnitudes of rows [begin, end) as bits.
  [[nodiscard]] MINITE_INLINE vi amax(int64_t begin, int64_t end) const {
    vi most(0u);
    for (int64_t r = begin; r < end; ++r) most = max_u32(most, magnitude_bits(row(r)));
    return most;
  }
};

/// Byte b of each lane's row of block scales.
MINITE_INLINE void store_scales(const QTensor& out, int64_t column, int64_t lanes, int64_t b, vi scale) {
  alignas(16) uint8_t tmp[kLanes];
  store_u8(tmp, scale);
  for (int64_t j = 0; j < lanes; ++j) out.block_scales[(column + j) * out.scale_stride() + b] = tmp[j];
}

/// One block of 16 rows, `begin` a multiple of 16: 8 bytes a column.
template <class T>
MINITE_INLINE void nvfp4_column_block(const Strip<T>& strip, int64_t begin, vf per_six, vf s_dec,
                                      const QTensor& out) {
  const int64_t n = min64(16, out.cols - begin);
  const Nvfp4Blocks block = nvfp4_blocks(from_bits(strip.amax(begin, begin + n)), per_six, s_dec);
  store_scales(out, strip.column, strip.lanes, begin / 16, block.scale);
  alignas(64) uint32_t words[2][kLanes];
  for (int64_t w = 0; w < 2; ++w) {
    vi word(0u);
    for (int64_t i = min64(8, n - 8 * w) - 1; i >= 0; --i) {
      word = shift_left<4>(word) | encode_e2m1(strip.row(begin + 8 * w + i) * block.encode);
    }
    store_u32(words[w], word);
  }
  const int64_t stride = out.code_stride();
  uint8_t* codes = out.codes + strip.column * stride + begin / 2;
  for (int64_t j = 0; j < strip.lanes; ++j) {
    const uint64_t bytes = words[0][j] | uint64_t{words[1][j]} << 32;
    if (n == 16) {
      std::memcpy(codes + j * stride, &bytes, 8);
    } else {
      std::memcpy(codes + j * stride, &bytes, static_cast<size_t>((n + 1) / 2));
    }
  }
}

/// One block of 32 rows, `begin` a multiple of 32: 32 bytes a column, turned as a 16 x 16 tile of words.
template <class T>
MINITE_INLINE void mxfp8_column_block(const Strip<T>& strip, int64_t begin, const QTensor& out) {
  const int64_t n = min64(32, out.cols - begin);
  const vi scale = mxfp8_scales(from_bits(strip.amax(begin, begin + n)));
  store_scales(out, strip.column, strip.lanes, begin / 32, scale);
  const vf inverse = inverse_e8m0(scale);
  alignas(64) float words[kLanes * kLanes] = {};
  alignas(64) float turned[kLanes * kLanes];
  for (int64_t w = 0; 4 * w < n; ++w) {
    vi word(0u);
    for (int64_t i = min64(4, n - 4 * w) - 1; i >= 0; --i) {
      word = shift_left<8>(word) | encode_e4m3(strip.row(begin + 4 * w + i) * inverse);
    }
    store(words + w * kLanes, from_bits(word));
  }
  transpose16(words, kLanes, turned, kLanes);
  const int64_t stride = out.code_stride();
  uint8_t* codes = out.codes + strip.column * stride + begin;
  for (int64_t j = 0; j < strip.lanes; ++j) {
    if (n == 32) {
      std::memcpy(codes + j * stride, turned + j * kLanes, 32);
    } else {
      std::memcpy(codes + j * stride, turned + j * kLanes, static_cast<size_t>(n));
    }
  }
}

/// Outer scales of n <= 64 columns from `c` on, each from its whole column.
template <class T>
MINITE_INLINE void column_outer(const TensorView& x, int64_t c, int64_t n, const QTensor& out, float* per_six,
                                float* s_dec) {
  alignas(64) float amax[kLanes];
  for (int64_t j = 0; j < n; ++j) {
    const int64_t lane = j % kLanes;
    if (lane == 0) {
      const Strip<T> strip{x, c + j, min64(kLanes, n - j)};
      store(amax, from_bits(strip.amax(0, x.rows)));
    }
    const Nvfp4Outer outer = nvfp4_outer(amax[lane]);
    out.amax[c + j] = amax[lane];
    out.outer[c + j] = outer.s_dec;
    per_six[j] = outer.per_six;
    s_dec[j] = outer.s_dec;
  }
}

/// Columns [c0, c1) of x against rows [r0, r1), r0 a multiple of 32. With an outer scale a column, the rows
/// are all of them.
template <class T>
MINITE_INLINE void quantize_columns(const TensorView& x, int64_t c0, int64_t c1, int64_t r0, int64_t r1,
                                    Nvfp4Outer outer, const QTensor& out) {
  const bool mxfp8 = out.spec.format == FormatId::mxfp8;
  const int64_t block = mxfp8 ? 32 : 16;
  constexpr int64_t kStrips = 4;  // 64 columns share the cache lines of a block of rows
  for (int64_t c = c0; c < c1; c += kStrips * kLanes) {
    alignas(64) float per_six[kStrips * kLanes], s_dec[kStrips * kLanes];
    const int64_t n = min64(kStrips * kLanes, c1 - c);
    for (int64_t j = 0; j < kStrips * kLanes; j += kLanes) {
      store(per_six + j, vf(outer.per_six));
      store(s_dec + j, vf(outer.s_dec));
    }
    if (out.spec.outer == OuterScale::row) column_outer<T>(x, c, n, out, per_six, s_dec);
    for (int64_t r = r0; r < r1; r += block) {
      for (int64_t j = 0; j < n; j += kLanes) {
        const Strip<T> strip{x, c + j, min64(kLanes, n - j)};
        if (mxfp8) {
          mxfp8_column_block(strip, r, out);
        } else {
          nvfp4_column_block(strip, r, load(per_six + j), load(s_dec + j), out);
        }
      }
    }
  }
}

}  // namespace minite::simd::MINITE_ISA
