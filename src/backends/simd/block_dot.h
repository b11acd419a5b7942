#pragma once
// NVFP4 x NVFP4 by integers. Twice an E2M1 value is an integer of [-12, 12], so a block's dot of codes is an
// exact integer in quarter units, |dot| <= 2304, and dot * d_a * d_b / 4 is exact in FP32: a chain adds it
// with one rounding.
//
// Products of bytes take one unsigned operand. b is stored as 2q + 12; what 12 adds to the dot,
// 12 * (sum of a's block), is subtracted by where the sum starts.
//
//   a   [rows][blocks] of ABlock
//   b   panels of kPanel rows of b: [blocks] of kPanelVectors x ( 4 x 16 lanes of 4 bytes ), then
//       kPanelVectors x 16 floats d_b / 4. A lane is a row of b; group g of a block holds the elements
//       {0,2,4,6}, {1,3,5,7}, {8,10,12,14}, {9,11,13,15}: nibbles of four neighbouring bytes.
#include "backends/simd/decode.h"
#include "backends/simd/panel.h"
#include "backends/simd/turned.h"

namespace minite::simd::MINITE_ISA {

#ifdef __AVX512F__
inline constexpr int kBlockRows = 8;  ///< 8 x 2 chains + 8 registers of codes + 2 of scales
#else
inline constexpr int kBlockRows = 4;
#endif
inline constexpr int64_t kCodeBytes = kPanel * 16;               ///< of a block of a panel
inline constexpr int64_t kPanelBlock = kCodeBytes + kPanel * 4;  ///< bytes: codes, then scales
inline constexpr int kOffset = 12;

/// A block of a row of a, in the order of the groups above.
struct ABlock {
  int8_t codes[16];    ///< 2q
  int32_t correction;  ///< -12 * sum of codes
  float scale;         ///< d_a
};

/// Four bytes at p in every lane.
MINITE_INLINE vi four_bytes(const int8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return vi(word);
}

#if defined(__AVX512VNNI__)
MINITE_INLINE vi block_dot(const vi (&b)[4], const ABlock& a) {
  vi dot(static_cast<uint32_t>(a.correction));
  for (int g = 0; g < 4; ++g) dot = _mm512_dpbusd_epi32(dot.v, b[g].v, four_bytes(a.codes + 4 * g).v);
  return dot;
}
#elif defined(__AVXVNNI__)
MINITE_INLINE vi block_dot(const vi (&b)[4], const ABlock& a) {
  vi dot(static_cast<uint32_t>(a.correction));
  for (int g = 0; g < 4; ++g) {
    const __m256i x = four_bytes(a.codes + 4 * g).lo;
    dot = {_mm256_dpbusd_avx_epi32(dot.lo, b[g].lo, x), _mm256_dpbusd_avx_epi32(dot.hi, b[g].hi, x)};
  }
  return dot;
}
#elif defined(__AVX512F__)
/// Pairs sum in 16 bits: at most 4 * 2 * 24 * 12 = 2304.
MINITE_INLINE vi block_dot(const vi (&b)[4], const ABlock& a) {
  __m512i pairs = _mm512_maddubs_epi16(b[0].v, four_bytes(a.codes).v);
  for (int g = 1; g < 4; ++g)
    pairs = _mm512_add_epi16(pairs, _mm512_maddubs_epi16(b[g].v, four_bytes(a.codes + 4 * g).v));
  return _mm512_add_epi32(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)), _mm512_set1_epi32(a.correction));
}
#else
/// Pairs sum in 16 bits: at most 4 * 2 * 24 * 12 = 2304.
MINITE_INLINE vi block_dot(const vi (&b)[4], const ABlock& a) {
  __m256i lo = _mm256_setzero_si256(), hi = lo;
  for (int g = 0; g < 4; ++g) {
    const __m256i x = four_bytes(a.codes + 4 * g).lo;
    lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(b[g].lo, x));
    hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(b[g].hi, x));
  }
  const __m256i one = _mm256_set1_epi16(1), start = _mm256_set1_epi32(a.correction);
  return {_mm256_add_epi32(_mm256_madd_epi16(lo, one), start),
          _mm256_add_epi32(_mm256_madd_epi16(hi, one), start)};
}
#endif

/// c[kRows][ldc] (+)= chains of `blocks` blocks; rows of a are a_stride blocks apart; starts from c when
/// `resume`.
using BlockKernel = void (*)(const ABlock* a, int64_t a_stride, const uint8_t* panel, int64_t blocks,
                             bool resume, float* c, int64_t ldc);

template <int kRows>
void block_kernel(const ABlock* a, int64_t a_stride, const uint8_t* panel, int64_t blocks, bool resume,
                  float* c, int64_t ldc) {
  vf acc[kRows][kPanelVectors];
  if (resume) {
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kPanelVectors; ++v) acc[r][v] = load(c + r * ldc + v * kLanes);
    }
  }
  for (int64_t b = 0; b < blocks; ++b, panel += kPanelBlock) {
    const auto* words = reinterpret_cast<const uint32_t*>(panel);
    const auto* scales = reinterpret_cast<const float*>(panel + kCodeBytes);
    vi codes[kPanelVectors][4];
    vf scale[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) {
      for (int g = 0; g < 4; ++g) codes[v][g] = load_u32(words + (v * 4 + g) * kLanes);
      scale[v] = load(scales + v * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const ABlock& x = a[r * a_stride + b];
      // The product of the scales and its product with the dot are exact: fma rounds the sum alone.
      for (int v = 0; v < kPanelVectors; ++v)
        acc[r][v] = fma(to_float(block_dot(codes[v], x)), vf(x.scale) * scale[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kPanelVectors; ++v) store(c + r * ldc + v * kLanes, acc[r][v]);
  }
}

/// Twice the E2M1 values by code, plus `offset`.
MINITE_INLINE __m128i doubled_codes(int offset) {
  const auto x = [&](int v) { return static_cast<char>(v + offset); };
  return _mm_setr_epi8(x(0), x(1), x(2), x(3), x(4), x(6), x(8), x(12), x(0), x(-1), x(-2), x(-3), x(-4),
                       x(-6), x(-8), x(-12));
}

/// Blocks [b0, b0 + blocks) of row r of a. Elements past the end count as zeros.
MINITE_INLINE void pack_a_row(const QTensor& q, int64_t r, int64_t b0, int64_t blocks, ABlock* out) {
  const uint8_t* codes = q.codes + r * q.code_stride();
  const uint8_t* scales = q.block_scales + r * q.scale_stride() + b0;
  const __m128i low = _mm_set1_epi8(15), signed_codes = doubled_codes(0);
  alignas(64) float d[kLanes];
  for (int64_t i = 0; i < blocks; ++i) {
    if (i % kLanes == 0) store(d, decode_nvfp4_scale(load_u8(scales + i, min64(kLanes, blocks - i)), q.spec));
    const int64_t k = (b0 + i) * 16, n = min64(16, q.cols - k);
    uint64_t bytes = 0;
    if (n == 16) {
      std::memcpy(&bytes, codes + k / 2, 8);
    } else {
      std::memcpy(&bytes, codes + k / 2, static_cast<size_t>((n + 1) / 2));
      bytes &= (uint64_t{1} << (4 * n)) - 1;
    }
    const __m128i x = _mm_cvtsi64_si128(static_cast<long long>(bytes));
    const __m128i even = _mm_and_si128(x, low), odd = _mm_and_si128(_mm_srli_epi16(x, 4), low);
    const __m128i values = _mm_shuffle_epi8(signed_codes, _mm_unpacklo_epi32(even, odd));
    const __m128i sums = _mm_sad_epu8(_mm_add_epi8(values, _mm_set1_epi8(kOffset)), _mm_setzero_si128());
    const int sum = _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * kOffset;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out[i].codes), values);
    out[i].correction = -kOffset * sum;
    out[i].scale = d[i % kLanes];
  }
}

/// Codes of up to 8 blocks from b0 of rows [r0, r0 + 16) of b into one vector's places. Rows past the end
/// give what meets a zero scale; elements past the end meet a's zeros.
MINITE_INLINE void pack_b_codes(const QTensor& q, int64_t r0, int64_t b0, int64_t blocks, uint8_t* out) {
  Words turned;
  turn_codes(q, r0, b0 * 16, turned);
  const __m128i table = doubled_codes(kOffset);
  const vi low(0x0F0F0F0Fu);
  for (int64_t half = 0; half < 2 * blocks; ++half) {
    const vi x = turned[half];
    uint8_t* block = out + half / 2 * kPanelBlock + half % 2 * 128;
    store_u32(reinterpret_cast<uint32_t*>(block), lookup_bytes(table, x & low));
    store_u32(reinterpret_cast<uint32_t*>(block + 64), lookup_bytes(table, shift_right<4>(x) & low));
  }
}

/// Scales of up to 64 blocks, likewise.
MINITE_INLINE void pack_b_scales(const QTensor& q, int64_t r0, int64_t b0, int64_t blocks, uint8_t* out) {
  Words turned;
  turn_scales(q, r0, b0, turned);
  for (int64_t b = 0; b < blocks; ++b)
    store(reinterpret_cast<float*>(out + b * kPanelBlock), turned_scale(turned, b, q.spec) * vf(0.25f));
}

/// Blocks [b0, b0 + blocks) of rows [r0, r0 + kPanel) of b.
MINITE_INLINE void pack_b(const QTensor& q, int64_t r0, int64_t b0, int64_t blocks, uint8_t* panel) {
  for (int64_t v = 0; v < kPanelVectors; ++v) {
    for (int64_t b = 0; b < blocks; b += 8)
      pack_b_codes(q, r0 + v * kLanes, b0 + b, min64(8, blocks - b), panel + b * kPanelBlock + v * 256);
    for (int64_t b = 0; b < blocks; b += 64) {
      pack_b_scales(q, r0 + v * kLanes, b0 + b, min64(64, blocks - b),
                    panel + b * kPanelBlock + kCodeBytes + v * 64);
    }
  }
}

}  // namespace minite::simd::MINITE_ISA
