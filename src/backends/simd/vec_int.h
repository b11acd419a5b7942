#pragma once
// Integer lanes beyond vec.h: comparisons, memory, nibbles. Same rules as vec.h.
#include "backends/simd/vec.h"

namespace minite::simd::MINITE_ISA {

#ifdef __AVX512F__

/// a > b, signed
MINITE_INLINE vmask operator>(vi a, vi b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
MINITE_INLINE vi min_u32(vi a, vi b) { return _mm512_min_epu32(a.v, b.v); }
/// Larger of each 16 bits.
MINITE_INLINE vi max_u16(vi a, vi b) { return _mm512_max_epu16(a.v, b.v); }
/// a + b in the lanes of m, else a
MINITE_INLINE vi add_if(vmask m, vi a, vi b) { return _mm512_mask_add_epi32(a.v, m.v, a.v, b.v); }
MINITE_INLINE bool any(vmask m) { return m.v != 0; }
/// p[0] in the lower eight lanes, p[1] in the upper eight
MINITE_INLINE vf halves(const float* p) {
  return _mm512_insertf32x8(_mm512_set1_ps(p[0]), _mm256_set1_ps(p[1]), 1);
}
/// Largest magnitudes of sixteen blocks of sixteen bf16 values, as FP32 bits: a tree of maxima of 16 bits.
MINITE_INLINE vi block_amaxes(const bf16* x) {
  const auto pair = [&](int i) {
    const __m512i m = _mm512_set1_epi16(0x7FFF);
    const __m512i a = _mm512_and_si512(_mm512_loadu_si512(x + 64 * i), m);
    const __m512i b = _mm512_and_si512(_mm512_loadu_si512(x + 64 * i + 32), m);
    return _mm512_max_epu16(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  };
  const auto quad = [&](int i) {
    const __m512 a = _mm512_castsi512_ps(pair(i)), b = _mm512_castsi512_ps(pair(i + 1));
    return _mm512_max_epu16(_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xDD)));
  };
  const __m512i low = quad(0), high = quad(2);
  const __m512i all =
      _mm512_max_epu16(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xDD));
  // Two 16-bit maxima a block are left; even blocks of a half stand before odd ones.
  const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  const __m512i most = _mm512_max_epu16(all, _mm512_slli_epi32(all, 16));
  return _mm512_permutexvar_epi32(order,
                                  _mm512_and_si512(most, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}
MINITE_INLINE vi operator^(vi a, vi b) { return _mm512_xor_si512(a.v, b.v); }
/// The 64-bit products of a and b, by halves.
MINITE_INLINE void multiply_wide(vi a, vi b, vi& high, vi& low) {
  const __m512i even = _mm512_mul_epu32(a.v, b.v);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}
/// Turns 4 x 4 pieces: element i of piece b of x[k] becomes element k of piece b of x[i].
MINITE_INLINE void turn_quads(vf (&x)[4]) {
  const __m512 a = _mm512_unpacklo_ps(x[0].v, x[1].v), b = _mm512_unpackhi_ps(x[0].v, x[1].v);
  const __m512 c = _mm512_unpacklo_ps(x[2].v, x[3].v), d = _mm512_unpackhi_ps(x[2].v, x[3].v);
  x[0] = _mm512_shuffle_ps(a, c, 0x44);
  x[1] = _mm512_shuffle_ps(a, c, 0xEE);
  x[2] = _mm512_shuffle_ps(b, d, 0x44);
  x[3] = _mm512_shuffle_ps(b, d, 0xEE);
}
/// a > b ? a : b, hence b when either is NaN.
MINITE_INLINE vf max_or_second(vf a, vf b) { return _mm512_max_ps(a.v, b.v); }
/// a < b ? a : b, hence b when either is NaN.
MINITE_INLINE vf min_or_second(vf a, vf b) { return _mm512_min_ps(a.v, b.v); }
MINITE_INLINE vi load_u32(const uint32_t* p) { return _mm512_loadu_si512(p); }
MINITE_INLINE void store_u32(uint32_t* p, vi x) { _mm512_storeu_si512(p, x.v); }
MINITE_INLINE vi widen_u8(__m128i b) { return _mm512_cvtepu8_epi32(b); }
/// table[byte] for each byte of x, all below 16
MINITE_INLINE vi lookup_bytes(__m128i table, vi x) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), x.v);
}
/// The low 8 bits of each lane.
MINITE_INLINE __m128i narrow_u8(vi x) { return _mm512_cvtepi32_epi8(x.v); }

#else

MINITE_INLINE vmask operator>(vi a, vi b) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.lo, b.lo)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(a.hi, b.hi))};
}
MINITE_INLINE vi operator^(vi a, vi b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
MINITE_INLINE void multiply_wide(__m256i a, __m256i b, __m256i& high, __m256i& low) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
MINITE_INLINE void multiply_wide(vi a, vi b, vi& high, vi& low) {
  multiply_wide(a.lo, b.lo, high.lo, low.lo);
  multiply_wide(a.hi, b.hi, high.hi, low.hi);
}
MINITE_INLINE void turn_quads(__m256& x0, __m256& x1, __m256& x2, __m256& x3) {
  const __m256 a = _mm256_unpacklo_ps(x0, x1), b = _mm256_unpackhi_ps(x0, x1);
  const __m256 c = _mm256_unpacklo_ps(x2, x3), d = _mm256_unpackhi_ps(x2, x3);
  x0 = _mm256_shuffle_ps(a, c, 0x44);
  x1 = _mm256_shuffle_ps(a, c, 0xEE);
  x2 = _mm256_shuffle_ps(b, d, 0x44);
  x3 = _mm256_shuffle_ps(b, d, 0xEE);
}
MINITE_INLINE void turn_quads(vf (&x)[4]) {
  turn_quads(x[0].lo, x[1].lo, x[2].lo, x[3].lo);
  turn_quads(x[0].hi, x[1].hi, x[2].hi, x[3].hi);
}
MINITE_INLINE vi min_u32(vi a, vi b) { return {_mm256_min_epu32(a.lo, b.lo), _mm256_min_epu32(a.hi, b.hi)}; }
MINITE_INLINE vi max_u16(vi a, vi b) { return {_mm256_max_epu16(a.lo, b.lo), _mm256_max_epu16(a.hi, b.hi)}; }
MINITE_INLINE vi add_if(vmask m, vi a, vi b) {
  return {_mm256_add_epi32(a.lo, _mm256_and_si256(_mm256_castps_si256(m.lo), b.lo)),
          _mm256_add_epi32(a.hi, _mm256_and_si256(_mm256_castps_si256(m.hi), b.hi))};
}
MINITE_INLINE bool any(vmask m) { return _mm256_movemask_ps(_mm256_or_ps(m.lo, m.hi)) != 0; }
MINITE_INLINE vf halves(const float* p) { return {_mm256_set1_ps(p[0]), _mm256_set1_ps(p[1])}; }
MINITE_INLINE vi block_amaxes(const bf16* x) {
  const auto load = [&](int i) {
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 16 * i));
    return _mm256_and_si256(b, _mm256_set1_epi16(0x7FFF));
  };
  const auto pair = [&](int i) {
    const __m256i a = load(i), b = load(i + 1);
    return _mm256_max_epu16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  };
  const auto quad = [&](int i) {
    const __m256 a = _mm256_castsi256_ps(pair(i)), b = _mm256_castsi256_ps(pair(i + 2));
    return _mm256_max_epu16(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)),
                            _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD)));
  };
  const auto eight = [&](int i) {
    const __m256i a = quad(i), b = quad(i + 4);
    const __m256i all =
        _mm256_max_epu16(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
    return _mm256_and_si256(_mm256_max_epu16(all, _mm256_slli_epi32(all, 16)),
                            _mm256_set1_epi32(static_cast<int>(0xFFFF0000u)));
  };
  return {eight(0), eight(8)};
}
MINITE_INLINE vf max_or_second(vf a, vf b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
MINITE_INLINE vf min_or_second(vf a, vf b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
MINITE_INLINE vi load_u32(const uint32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
MINITE_INLINE void store_u32(uint32_t* p, vi x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.hi);
}
MINITE_INLINE vi lookup_bytes(__m128i table, vi x) {
  const __m256i t = _mm256_broadcastsi128_si256(table);
  return {_mm256_shuffle_epi8(t, x.lo), _mm256_shuffle_epi8(t, x.hi)};
}
MINITE_INLINE vi widen_u8(__m128i b) {
  return {_mm256_cvtepu8_epi32(b), _mm256_cvtepu8_epi32(_mm_srli_si128(b, 8))};
}
/// Each lane, below 256, as a byte.
MINITE_INLINE __m128i narrow_u8(vi x) {
  const __m256i w = _mm256_permute4x64_epi64(_mm256_packus_epi32(x.lo, x.hi), 0xD8);
  return _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
}

#endif

/// The first n <= 16 bytes at p as lanes; the other lanes are 0.
MINITE_INLINE vi load_u8(const uint8_t* p, int64_t n) {
  if (n == kLanes) return load_u8(p);
  alignas(16) uint8_t tmp[kLanes] = {};
  std::memcpy(tmp, p, static_cast<size_t>(n));
  return load_u8(tmp);
}
MINITE_INLINE void store_u8(uint8_t* p, vi x, int64_t n) {
  if (n == kLanes) return store_u8(p, x);
  alignas(16) uint8_t tmp[kLanes];
  store_u8(tmp, x);
  std::memcpy(p, tmp, static_cast<size_t>(n));
}

/// Sixteen nibbles of 8 bytes, low nibble first, one a lane.
MINITE_INLINE vi unpack_nibbles(uint64_t bytes) {
  const __m128i b = _mm_cvtsi64_si128(static_cast<long long>(bytes));
  const __m128i low = _mm_set1_epi8(15);
  return widen_u8(_mm_unpacklo_epi8(_mm_and_si128(b, low), _mm_and_si128(_mm_srli_epi16(b, 4), low)));
}
/// The inverse: sixteen lanes below 16 to 8 bytes.
MINITE_INLINE uint64_t pack_nibbles(vi x) {
  const __m128i pairs = _mm_maddubs_epi16(narrow_u8(x), _mm_set1_epi16(0x1001));  // even + 16 * odd
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)));
}

}  // namespace minite::simd::MINITE_ISA
