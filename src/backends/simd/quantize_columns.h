#pragma once
// Columns to codes: a lane is a column of x and a row of the output; blocks run down the rows. Rows past the
// end count as zeros.
#include "backends/simd/hadamard.h"
#include "backends/simd/quantize_row.h"

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
  /// Rows [begin, begin + 16), rotated if the spec says so.
  [[nodiscard]] MINITE_INLINE BlockLanes block(int64_t begin, const QuantSpec& spec) const {
    BlockLanes b;
    const int64_t n = min64(16, x.rows - begin);
    for (int64_t i = 0; i < n; ++i) store(b.v[i], row(begin + i));
    for (int64_t i = n; i < 16; ++i) store(b.v[i], vf());
    if (spec.rotation != Rotation::none) hadamard(b);
    return b;
  }
  /// Largest magnitudes of all rows as the quantizer sees them.
  [[nodiscard]] MINITE_INLINE vi seen_amax(const QuantSpec& spec) const {
    if (spec.rotation == Rotation::none) return amax(0, x.rows);
    vi most(0u);
    for (int64_t r = 0; r < x.rows; r += 16) {
      const BlockLanes b = block(r, spec);
      for (int64_t i = 0; i < 16; ++i) most = max_u32(most, magnitude_bits(b[i]));
    }
    return most;
  }
};

/// Byte b of each lane's row of block scales.
MINITE_INLINE void store_scales(const QTensor& out, int64_t column, int64_t lanes, int64_t b, vi scale) {
  alignas(16) uint8_t tmp[kLanes];
  store_u8(tmp, scale);
  const int64_t stride = out.scale_stride();
  uint8_t* scales = out.block_scales + column * stride + b;
  for (int64_t j = 0; j < lanes; ++j) scales[j * stride] = tmp[j];
}

/// Random bytes of block b of each lane's row: [element][lane].
MINITE_INLINE void column_noise(const QTensor& out, const Noise& noise, int64_t column, int64_t lanes,
                                int64_t b, uint8_t (&bytes)[16][kLanes]) {
  for (int64_t j = 0; j < lanes; ++j) {
    const auto words = ref::rounding_noise(noise, (column + j) * out.scale_stride() + b);
    uint8_t mine[16];
    std::memcpy(mine, &words, 16);
    for (int64_t i = 0; i < 16; ++i) bytes[i][j] = mine[i];
  }
}

template <class T>
MINITE_INLINE Nvfp4Blocks column_blocks(const Strip<T>& strip, int64_t begin, const BlockLanes& block,
                                        const OuterLanes& outer, const QuantSpec& spec) {
  vi most(0u);
  for (int64_t i = 0; i < 16; ++i) most = max_u32(most, magnitude_bits(block[i]));
  if (spec.blocks == BlockShape::row)
    return choose_blocks(from_bits(most), outer, spec, [&] { return block; });
  return choose_tile<T>(from_bits(vi(fold_max_u32(most))), outer, spec, strip.x, begin, strip.column);
}

/// One block of 16 rows, `begin` a multiple of 16: 8 bytes a column.
template <class T>
MINITE_INLINE void nvfp4_column_block(const Strip<T>& strip, int64_t begin, const OuterLanes& outer,
                                      const QTensor& out, const Noise& noise) {
  const int64_t n = min64(16, out.cols - begin);
  const BlockLanes block = strip.block(begin, out.spec);
  const Nvfp4Blocks scales = column_blocks(strip, begin, block, outer, out.spec);
  store_scales(out, strip.column, strip.lanes, begin / 16, scales.scale);
  alignas(16) uint8_t random[16][kLanes] = {};
  if (out.spec.rounding == Rounding::stochastic)
    column_noise(out, noise, strip.column, strip.lanes, begin / 16, random);
  alignas(64) uint32_t words[2][kLanes];
  for (int64_t w = 0; w < 2; ++w) {
    vi word(0u);
    for (int64_t i = min64(8, n - 8 * w) - 1; i >= 0; --i) {
      const int64_t e = 8 * w + i;
      word = shift_left<4>(word) | round_e2m1(block[e] * scales.encode, out.spec, load_u8(random[e]));
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

/// Amax of the tile of kBlock x kBlock elements that holds the strip's block at `begin`.
template <int kBlock, class T>
MINITE_INLINE vi tile_amax(const Strip<T>& strip, int64_t begin, int64_t n) {
  vi most(0u);
  const int64_t left = strip.column / kBlock * kBlock;
  for (int64_t c = left; c < min64(left + kBlock, strip.x.cols); c += kLanes) {
    const Strip<T> part{strip.x, c, min64(kLanes, strip.x.cols - c)};
    most = max_u32(most, part.amax(begin, begin + n));
  }
  return vi(fold_max_u32(most));
}

/// One block of kBlock rows of a byte format: kBlock bytes a column, turned as a 16 x 16 tile of words.
template <int kBlock, class T, class Scale, class Factor, class Code>
MINITE_INLINE void byte_column_block(const Strip<T>& strip, int64_t begin, const QTensor& out,
                                     const Scale& scale_of, const Factor& factor_of, const Code& code_of) {
  const int64_t n = min64(kBlock, out.cols - begin);
  const bool tile = out.spec.blocks == BlockShape::tile;
  const vi scale =
      scale_of(from_bits(tile ? tile_amax<kBlock>(strip, begin, n) : strip.amax(begin, begin + n)));
  store_scales(out, strip.column, strip.lanes, begin / kBlock, scale);
  const vf factor = factor_of(scale);
  alignas(64) float words[kLanes * kLanes] = {};
  alignas(64) float turned[kLanes * kLanes];
  for (int64_t w = 0; 4 * w < n; ++w) {
    vi word(0u);
    for (int64_t i = min64(4, n - 4 * w) - 1; i >= 0; --i) {
      word = shift_left<8>(word) | code_of(strip.row(begin + 4 * w + i), factor);
    }
    store(words + w * kLanes, from_bits(word));
  }
  transpose16(words, kLanes, turned, kLanes);
  const int64_t stride = out.code_stride();
  uint8_t* codes = out.codes + strip.column * stride + begin;
  for (int64_t j = 0; j < strip.lanes; ++j) {
    if (n == kBlock) {
      std::memcpy(codes + j * stride, turned + j * kLanes, kBlock);
    } else {
      std::memcpy(codes + j * stride, turned + j * kLanes, static_cast<size_t>(n));
    }
  }
}

/// Columns that a task takes; their outer scales.
inline constexpr int64_t kColumns = 64;
struct ColumnOuter {
  alignas(64) float s_enc[kColumns], s_dec[kColumns], amax[kColumns];

  MINITE_INLINE explicit ColumnOuter(const Nvfp4Outer& shared) {
    for (int64_t j = 0; j < kColumns; ++j) set(j, shared);
  }
  MINITE_INLINE void set(int64_t j, const Nvfp4Outer& outer) {
    s_enc[j] = outer.s_enc;
    s_dec[j] = outer.s_dec;
    amax[j] = outer.amax;
  }
  [[nodiscard]] MINITE_INLINE OuterLanes lanes(int64_t j) const {
    return OuterLanes(s_enc + j, s_dec + j, amax + j);
  }
};

/// Outer scales of n <= 64 columns from `c` on, each from its whole column.
template <class T>
MINITE_INLINE void column_outer(const TensorView& x, int64_t c, int64_t n, const QTensor& out,
                                ColumnOuter& outer) {
  alignas(64) float amax[kLanes];
  for (int64_t j = 0; j < n; ++j) {
    const int64_t lane = j % kLanes;
    if (lane == 0) {
      const Strip<T> strip{x, c + j, min64(kLanes, n - j)};
      store(amax, from_bits(strip.seen_amax(out.spec)));
    }
    outer.set(j, nvfp4_outer(amax[lane], out.spec));
    out.amax[c + j] = amax[lane];
    out.outer[c + j] = outer.s_dec[j];
  }
}

/// Columns [c, c + n), n <= 64, of x against rows [r0, r1) of the operand, r0 a multiple of 32. With an outer
/// scale a column, the rows are all of them.
template <class T>
MINITE_INLINE void quantize_columns(const QuantizeArgs& args, int64_t c, int64_t n, int64_t r0, int64_t r1,
                                    const Nvfp4Outer& shared) {
  const QTensor& out = args.out;
  const auto each_strip = [&](int64_t block, const auto& body) {
    // 64 columns share the cache lines of a block of rows.
    for (int64_t r = r0; r < r1; r += block) {
      for (int64_t j = 0; j < n; j += kLanes) body(Strip<T>{args.x, c + j, min64(kLanes, n - j)}, r, j);
    }
  };
  if (out.spec.format != FormatId::nvfp4) {
    return with_byte_format(format(out.spec.format), [&](auto block, auto scale, auto factor, auto code) {
      constexpr int kBlock = decltype(block)::value;
      each_strip(kBlock, [&](const Strip<T>& strip, int64_t r, int64_t) {
        byte_column_block<kBlock>(strip, r, out, scale, factor, code);
      });
    });
  }
  ColumnOuter outer(shared);
  if (out.spec.outer == OuterScale::row) column_outer<T>(args.x, c, n, out, outer);
  each_strip(16, [&](const Strip<T>& strip, int64_t r, int64_t j) {
    nvfp4_column_block(strip, r, outer.lanes(j), out, args.noise);
  });
}

}  // namespace minite::simd::MINITE_ISA
