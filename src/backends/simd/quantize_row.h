#pragma once
// Rows to codes, sixteen blocks at a time so that block scales are computed in lanes. Rows end at any
// column: what is missing from the last block counts as zeros. A strip is what shares block scales: one row,
// or the rows of a tile.
#include <type_traits>

#include "backends/simd/quantize_search.h"

namespace minite::simd::MINITE_ISA {

/// Thirty-two bf16 values, two a lane.
MINITE_INLINE vi load_pairs(const bf16* x) { return load_u32(reinterpret_cast<const uint32_t*>(x)); }

/// Largest magnitude of n elements as bits, NaN on top.
template <class T>
MINITE_INLINE uint32_t amax_bits(const T* x, int64_t n) {
  vi most(0u);
  int64_t done = 0;
  if constexpr (std::is_same_v<T, bf16>) {
    vi pairs(0u);
    for (; done + 2 * kLanes <= n; done += 2 * kLanes)
      pairs = max_u16(pairs, load_pairs(x + done) & vi(0x7FFF7FFFu));
    most = max_u32(shift_left<16>(pairs), pairs & vi(0xFFFF0000u));
  }
  for_lanes(n - done, [&](int64_t i, int64_t lanes) {
    most = max_u32(most, magnitude_bits(load_n(x + done + i, lanes)));
  });
  return fold_max_u32(most);
}

/// Rows that share block scales.
template <class T>
struct RowStrip {
  const TensorView& x;
  int64_t first, rows;
  [[nodiscard]] MINITE_INLINE const T* row(int64_t r) const { return x.row<const T>(first + r); }
};

/// Amaxes of up to 16 blocks of kBlock elements, n elements in all; absent blocks are 0.
template <int kBlock, class T>
MINITE_INLINE vi block_amaxes(const T* x, int64_t n) {
  if constexpr (kBlock == 16 && std::is_same_v<T, bf16>) {
    if (n == 16 * 16) return block_amaxes(x);
  }
  alignas(64) uint32_t amax[kLanes] = {};
  int64_t b = 0;
  for (; (b + 1) * kBlock <= n; ++b) {
    vi most = magnitude_bits(load(x + b * kBlock));
    if constexpr (kBlock == 32) most = max_u32(most, magnitude_bits(load(x + b * kBlock + kLanes)));
    amax[b] = fold_max_u32(most);
  }
  if (b * kBlock < n) amax[b] = amax_bits(x + b * kBlock, n - b * kBlock);
  return load_u32(amax);
}
/// The same over the rows of a strip.
template <int kBlock, class T>
MINITE_INLINE vf strip_amaxes(const RowStrip<T>& strip, int64_t begin, int64_t n) {
  vi most = block_amaxes<kBlock>(strip.row(0) + begin, n);
  for (int64_t r = 1; r < strip.rows; ++r)
    most = max_u32(most, block_amaxes<kBlock>(strip.row(r) + begin, n));
  return from_bits(most);
}

/// Sixteen blocks of a row, turned so that each lane is a block.
template <class T>
MINITE_INLINE BlockLanes turned_blocks(const T* x, int64_t n) {
  alignas(64) float blocks[16 * kLanes] = {};
  BlockLanes turned;
  for_lanes(n, [&](int64_t i, int64_t lanes) { store(blocks + i, load_n(x + i, lanes)); });
  transpose16(blocks, kLanes, turned.v[0], kLanes);
  return turned;
}

/// Scales of the blocks at columns [begin, begin + n) of a strip.
template <class T>
MINITE_INLINE Nvfp4Blocks strip_blocks(const RowStrip<T>& strip, int64_t begin, int64_t n,
                                       const OuterLanes& outer, const QuantSpec& spec) {
  const vf amax = strip_amaxes<16>(strip, begin, n);
  if (spec.blocks == BlockShape::row || spec.search == ScaleSearch::amax)
    return choose_blocks(amax, outer, spec, [&] { return turned_blocks(strip.row(0) + begin, n); });
  alignas(64) float amaxes[kLanes], encode[kLanes] = {};
  alignas(64) uint32_t scale[kLanes] = {};
  store(amaxes, amax);
  for (int64_t b = 0; b < ceil_div(n, 16); ++b) {
    const Nvfp4Blocks tile = choose_tile<T>(vf(amaxes[b]), outer, spec, strip.x, strip.first, begin + 16 * b);
    alignas(64) uint32_t scales[kLanes];
    alignas(64) float encodes[kLanes];
    store_u32(scales, tile.scale);
    store(encodes, tile.encode);
    scale[b] = scales[0];
    encode[b] = encodes[0];
  }
  return {load_u32(scale), load(encode)};
}

/// Codes of n elements whose blocks have the factors `encode`; `block` is the index of the first one.
template <class T>
MINITE_INLINE void encode_nvfp4(const T* x, int64_t n, const float* encode, const QuantSpec& spec,
                                const Noise& noise, int64_t block, uint8_t* codes) {
  for_lanes(n, [&](int64_t i, int64_t lanes) {
    vi u(0u);
    if (spec.rounding == Rounding::stochastic) {
      const auto words = ref::rounding_noise(noise, block + i / 16);
      u = load_u8(reinterpret_cast<const uint8_t*>(&words));
    }
    const uint64_t bytes = pack_nibbles(round_e2m1(load_n(x + i, lanes) * vf(encode[i / 16]), spec, u));
    if (lanes == kLanes) {
      std::memcpy(codes + i / 2, &bytes, 8);
    } else {
      std::memcpy(codes + i / 2, &bytes, static_cast<size_t>((lanes + 1) / 2));
    }
  });
}

/// The same, rounded to nearest: two blocks at a time, even and odd elements of a pair of bytes on their own.
/// A NaN element makes its block's factor NaN (docs/numerics.md), so numbers meet numbers in the loop.
MINITE_INLINE void encode_nvfp4_nearest(const bf16* x, int64_t n, const float* encode, const QuantSpec& spec,
                                        uint8_t* codes) {
  int64_t i = 0;
  if (!any(is_nan(load(encode)))) {
    for (; i + 32 <= n; i += 32) {
      const vi pairs = load_pairs(x + i);
      const vf e = halves(encode + i / 16);
      const vi even = e2m1_low_bits(from_bits(shift_left<16>(pairs)) * e);
      const vi odd = e2m1_low_bits(from_bits(pairs & vi(0xFFFF0000u)) * e);
      store_u8(codes + i / 2, even + shift_left<4>(odd));
    }
  }
  encode_nvfp4(x + i, n - i, encode + i / 16, spec, {}, 0, codes + i / 2);
}

template <class T>
MINITE_INLINE void quantize_strip_nvfp4(const RowStrip<T>& strip, const Nvfp4Outer& outer, const QTensor& out,
                                        const Noise& noise) {
  constexpr int64_t kGroup = 16 * 16;
  const OuterLanes lanes(outer);
  const int64_t scale_stride = out.scale_stride(), code_stride = out.code_stride();
  for (int64_t begin = 0; begin < out.cols; begin += kGroup) {
    const int64_t n = min64(kGroup, out.cols - begin);
    const Nvfp4Blocks blocks = strip_blocks(strip, begin, n, lanes, out.spec);
    alignas(64) float encode[kLanes];
    store(encode, blocks.encode);
    for (int64_t i = 0; i < strip.rows; ++i) {
      const int64_t r = strip.first + i, index = r * scale_stride + begin / 16;
      store_u8(out.block_scales + index, blocks.scale, ceil_div(n, 16));
      uint8_t* codes = out.codes + r * code_stride + begin / 2;
      if constexpr (std::is_same_v<T, bf16>) {
        if (out.spec.rounding == Rounding::nearest) {
          encode_nvfp4_nearest(strip.row(i) + begin, n, encode, out.spec, codes);
          continue;
        }
      }
      encode_nvfp4(strip.row(i) + begin, n, encode, out.spec, noise, index, codes);
    }
  }
}

/// Formats of one byte an element: scale(amaxes) gives scale bytes, factor(bytes) what each block's elements
/// meet, code(x, factor) an element's byte.
template <int kBlock, class T, class Scale, class Factor, class Code>
MINITE_INLINE void quantize_strip_bytes(const RowStrip<T>& strip, const QTensor& out, const Scale& scale,
                                        const Factor& factor, const Code& code) {
  constexpr int64_t kGroup = 16 * kBlock;
  const int64_t scale_stride = out.scale_stride(), code_stride = out.code_stride();
  for (int64_t begin = 0; begin < out.cols; begin += kGroup) {
    const int64_t n = min64(kGroup, out.cols - begin);
    const vi bytes = scale(strip_amaxes<kBlock>(strip, begin, n));
    alignas(64) float factors[kLanes];
    store(factors, factor(bytes));
    for (int64_t i = 0; i < strip.rows; ++i) {
      const int64_t r = strip.first + i;
      const T* x = strip.row(i) + begin;
      store_u8(out.block_scales + r * scale_stride + begin / kBlock, bytes, ceil_div(n, kBlock));
      uint8_t* codes = out.codes + r * code_stride + begin;
      for_lanes(n, [&](int64_t c, int64_t lanes) {
        store_u8(codes + c, code(load_n(x + c, lanes), vf(factors[c / kBlock])), lanes);
      });
    }
  }
}

/// Calls body(block size, scale, factor, code) with the arithmetic of a byte format.
template <class Body>
MINITE_INLINE void with_byte_format(const Format& format, const Body& body) {
  if (format.id == FormatId::mxfp8) {
    return body(
        std::integral_constant<int, 32>{}, [](vf amax) { return mxfp8_scales(amax); },
        [](vi scale) { return inverse_e8m0(scale); },
        [](vf x, vf inverse) { return encode_e4m3(x * inverse); });
  }
  const bool e8m0 = format.block_scale == Element::e8m0;
  with_sim_element(format.element, [&](auto codec) {
    using Codec = decltype(codec);
    body(
        std::integral_constant<int, 16>{},
        [&](vf amax) {
          const vf t = amax / vf(Codec::kMax);
          return e8m0 ? encode_e8m0(t) : encode_e4m3(t);
        },
        [&](vi scale) { return e8m0 ? decode_e8m0(scale) : decode_e4m3(scale); },
        [](vf x, vf d) { return encode_sim<Codec>(x / d); });
  });
}

/// A strip of x into the same rows of `out`; `outer` is used unless the outer scale belongs to the row.
template <class T>
MINITE_INLINE void quantize_strip(const RowStrip<T>& strip, Nvfp4Outer outer, const QTensor& out,
                                  const Noise& noise) {
  if (out.spec.format != FormatId::nvfp4) {
    return with_byte_format(format(out.spec.format), [&](auto block, auto scale, auto factor, auto code) {
      quantize_strip_bytes<decltype(block)::value>(strip, out, scale, factor, code);
    });
  }
  if (out.spec.outer == OuterScale::row) {
    const int64_t r = strip.first;
    out.amax[r] = std::bit_cast<float>(amax_bits(strip.row(0), out.cols));
    outer = nvfp4_outer(out.amax[r], out.spec);
    out.outer[r] = outer.s_dec;
  }
  quantize_strip_nvfp4(strip, outer, out, noise);
}

/// Row r of x into row r of `out`, whose scales all lie inside the row.
template <class T>
MINITE_INLINE void quantize_row(const TensorView& x, int64_t r, const QTensor& out) {
  quantize_strip(RowStrip<T>{x, r, 1}, {}, out, {});
}

/// Whether all rows of `out` share one outer scale, so that a pass over everything comes before the codes.
MINITE_INLINE bool shares_outer(const QTensor& out) {
  return out.spec.outer == OuterScale::tensor || out.spec.outer == OuterScale::expert;
}
/// Whether a row can be quantized in lanes as soon as it is there.
MINITE_INLINE bool row_by_row(const QTensor& out) {
  return in_lanes(out.spec) && !shares_outer(out) && out.spec.blocks == BlockShape::row;
}

}  // namespace minite::simd::MINITE_ISA
