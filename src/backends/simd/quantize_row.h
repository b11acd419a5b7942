#pragma once
// One row to codes, sixteen blocks at a time so that block scales are computed in lanes. Rows end at any
// column: what is missing from the last block counts as zeros.
#include "backends/simd/encode.h"
#include "backends/simd/tasks.h"

namespace minite::simd::MINITE_ISA {

/// Largest magnitude of n elements as bits, NaN on top.
template <class T>
MINITE_INLINE uint32_t amax_bits(const T* x, int64_t n) {
  vi most(0u);
  for_lanes(n, [&](int64_t i, int64_t lanes) { most = max_u32(most, magnitude_bits(load_n(x + i, lanes))); });
  return fold_max_u32(most);
}

/// The scales of one outer domain.
struct Nvfp4Outer {
  float per_six = ref::kSixth;  ///< fl(S_enc * fl(1/6))
  float s_dec = 1.0f;           ///< fl(1 / S_enc)
};
MINITE_INLINE Nvfp4Outer nvfp4_outer(float amax) {
  const float s_enc = ref::nvfp4_encode_scale(amax);
  return {s_enc * ref::kSixth, 1.0f / s_enc};
}

/// Amaxes of up to 16 blocks of kBlock elements, n elements in all; absent blocks are 0.
template <int kBlock, class T>
MINITE_INLINE vf block_amaxes(const T* x, int64_t n) {
  alignas(64) uint32_t amax[kLanes] = {};
  int64_t b = 0;
  for (; (b + 1) * kBlock <= n; ++b) {
    vi most = magnitude_bits(load(x + b * kBlock));
    if constexpr (kBlock == 32) most = max_u32(most, magnitude_bits(load(x + b * kBlock + kLanes)));
    amax[b] = fold_max_u32(most);
  }
  if (b * kBlock < n) amax[b] = amax_bits(x + b * kBlock, n - b * kBlock);
  return from_bits(load_u32(amax));
}

template <class T>
MINITE_INLINE void quantize_row_nvfp4(const T* x, int64_t cols, Nvfp4Outer outer, uint8_t* codes,
                                      uint8_t* scales) {
  constexpr int64_t kGroup = 16 * 16;
  for (int64_t begin = 0; begin < cols; begin += kGroup) {
    const int64_t n = min64(kGroup, cols - begin);
    const Nvfp4Blocks blocks =
        nvfp4_blocks(block_amaxes<16>(x + begin, n), vf(outer.per_six), vf(outer.s_dec));
    store_u8(scales + begin / 16, blocks.scale, ceil_div(n, 16));
    alignas(64) float encode[kLanes];
    store(encode, blocks.encode);
    for_lanes(n, [&](int64_t i, int64_t lanes) {
      const uint64_t bytes = pack_nibbles(encode_e2m1(load_n(x + begin + i, lanes) * vf(encode[i / 16])));
      uint8_t* out = codes + (begin + i) / 2;
      if (lanes == kLanes) {
        std::memcpy(out, &bytes, 8);
      } else {
        std::memcpy(out, &bytes, static_cast<size_t>((lanes + 1) / 2));
      }
    });
  }
}

template <class T>
MINITE_INLINE void quantize_row_mxfp8(const T* x, int64_t cols, uint8_t* codes, uint8_t* scales) {
  constexpr int64_t kGroup = 16 * 32;
  for (int64_t begin = 0; begin < cols; begin += kGroup) {
    const int64_t n = min64(kGroup, cols - begin);
    const vi scale = mxfp8_scales(block_amaxes<32>(x + begin, n));
    store_u8(scales + begin / 32, scale, ceil_div(n, 32));
    alignas(64) float inverse[kLanes];
    store(inverse, inverse_e8m0(scale));
    for_lanes(n, [&](int64_t i, int64_t lanes) {
      const vi code = encode_e4m3(load_n(x + begin + i, lanes) * vf(inverse[i / 32]));
      store_u8(codes + begin + i, code, lanes);
    });
  }
}

/// Row r of x into row r of `out`; `outer` is used unless the outer scale belongs to the row.
template <class T>
MINITE_INLINE void quantize_row(const T* x, int64_t r, Nvfp4Outer outer, const QTensor& out) {
  uint8_t* codes = out.codes + r * out.code_stride();
  uint8_t* scales = out.block_scales + r * out.scale_stride();
  if (out.spec.format == FormatId::mxfp8) return quantize_row_mxfp8(x, out.cols, codes, scales);
  if (out.spec.outer == OuterScale::row) {
    out.amax[r] = std::bit_cast<float>(amax_bits(x, out.cols));
    outer = nvfp4_outer(out.amax[r]);
    out.outer[r] = outer.s_dec;
  }
  quantize_row_nvfp4(x, out.cols, outer, codes, scales);
}

/// Whether all rows of `out` share one outer scale, so that a pass over everything comes before the codes.
MINITE_INLINE bool shares_outer(const QTensor& out) {
  return out.spec.outer == OuterScale::tensor || out.spec.outer == OuterScale::expert;
}

}  // namespace minite::simd::MINITE_ISA
