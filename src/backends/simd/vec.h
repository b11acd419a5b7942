#pragma once
// Sixteen FP32 lanes: one AVX-512 register or two AVX registers. Every kernel of this folder is written
// once on `vf` and compiled once for each instruction set, in its own namespace (MINITE_ISA), with the same
// arithmetic: add, mul, div, sqrt and fma are single IEEE operations in both.
//
// Only always-inline functions and types of namespace MINITE_ISA may be used by these files, so that no
// code compiled for AVX-512 can be merged by the linker into code that runs on older processors.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/math.h"
#include "minite/tensor.h"

#ifndef MINITE_ISA
#error "compile this file through the per-ISA libraries of src/backends/simd/CMakeLists.txt"
#endif

namespace minite::simd::MINITE_ISA {

inline constexpr int kLanes = 16;

#ifdef __AVX512F__

struct vf {
  __m512 v;
  MINITE_INLINE vf() : v(_mm512_setzero_ps()) {}
  MINITE_INLINE vf(__m512 x) : v(x) {}
  MINITE_INLINE explicit vf(float x) : v(_mm512_set1_ps(x)) {}
};
/// Sixteen 32-bit integers.
struct vi {
  __m512i v;
  MINITE_INLINE vi() : v(_mm512_setzero_si512()) {}
  MINITE_INLINE vi(__m512i x) : v(x) {}
  MINITE_INLINE explicit vi(uint32_t x) : v(_mm512_set1_epi32(static_cast<int>(x))) {}
};
/// One truth value a lane.
struct vmask {
  __mmask16 v;
};

MINITE_INLINE vf operator+(vf a, vf b) { return _mm512_add_ps(a.v, b.v); }
MINITE_INLINE vf operator-(vf a, vf b) { return _mm512_sub_ps(a.v, b.v); }
MINITE_INLINE vf operator*(vf a, vf b) { return _mm512_mul_ps(a.v, b.v); }
MINITE_INLINE vf operator/(vf a, vf b) { return _mm512_div_ps(a.v, b.v); }
MINITE_INLINE vf fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
MINITE_INLINE vf sqrt(vf a) { return _mm512_sqrt_ps(a.v); }
MINITE_INLINE vmask operator<(vf a, vf b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
MINITE_INLINE vmask is_nan(vf a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
MINITE_INLINE vmask first_lanes(int64_t n) { return {static_cast<__mmask16>((1u << n) - 1u)}; }
MINITE_INLINE vf select(vmask m, vf x, vf y) { return _mm512_mask_blend_ps(m.v, y.v, x.v); }
MINITE_INLINE vi select(vmask m, vi x, vi y) { return _mm512_mask_blend_epi32(m.v, y.v, x.v); }

MINITE_INLINE vi bits(vf a) { return _mm512_castps_si512(a.v); }
MINITE_INLINE vf from_bits(vi a) { return _mm512_castsi512_ps(a.v); }
MINITE_INLINE vi operator+(vi a, vi b) { return _mm512_add_epi32(a.v, b.v); }
MINITE_INLINE vi operator-(vi a, vi b) { return _mm512_sub_epi32(a.v, b.v); }
MINITE_INLINE vi operator&(vi a, vi b) { return _mm512_and_si512(a.v, b.v); }
MINITE_INLINE vi operator|(vi a, vi b) { return _mm512_or_si512(a.v, b.v); }
MINITE_INLINE vi max_u32(vi a, vi b) { return _mm512_max_epu32(a.v, b.v); }
template <int n>
MINITE_INLINE vi shift_left(vi a) {
  return _mm512_slli_epi32(a.v, n);
}
template <int n>
MINITE_INLINE vi shift_right(vi a) {
  return _mm512_srli_epi32(a.v, n);
}
template <int n>
MINITE_INLINE vi shift_right_signed(vi a) {
  return _mm512_srai_epi32(a.v, n);
}
MINITE_INLINE vf to_float(vi a) { return _mm512_cvtepi32_ps(a.v); }

MINITE_INLINE vf load(const float* p) { return _mm512_loadu_ps(p); }
MINITE_INLINE vf load(const bf16* p) {
  const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
/// Loads n < 16 elements; the other lanes are 0.
MINITE_INLINE vf load(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first_lanes(n).v, p); }
MINITE_INLINE void store(float* p, vf x) { _mm512_storeu_ps(p, x.v); }
MINITE_INLINE void store(float* p, vf x, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n).v, x.v); }
/// The low 16 bits of each lane.
MINITE_INLINE void store_u16(void* p, vi x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x.v));
}
/// The low 8 bits of each lane.
MINITE_INLINE void store_u8(void* p, vi x) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
MINITE_INLINE vi load_u8(const void* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}

/// lanes fold 8, 4, 2, 1
MINITE_INLINE float fold_add(vf x) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
MINITE_INLINE float fold_max(vf x) { return _mm512_reduce_max_ps(x.v); }
MINITE_INLINE uint32_t fold_max_u32(vi x) { return _mm512_reduce_max_epu32(x.v); }
/// table[x & 15] with a table of 16 floats
MINITE_INLINE vf lookup16(const float* table, vi x) {
  return _mm512_permutexvar_ps(x.v, _mm512_loadu_ps(table));
}

#else  // AVX2

struct vf {
  __m256 lo, hi;
  MINITE_INLINE vf() : lo(_mm256_setzero_ps()), hi(_mm256_setzero_ps()) {}
  MINITE_INLINE vf(__m256 l, __m256 h) : lo(l), hi(h) {}
  MINITE_INLINE explicit vf(float x) : lo(_mm256_set1_ps(x)), hi(_mm256_set1_ps(x)) {}
};
struct vi {
  __m256i lo, hi;
  MINITE_INLINE vi() : lo(_mm256_setzero_si256()), hi(_mm256_setzero_si256()) {}
  MINITE_INLINE vi(__m256i l, __m256i h) : lo(l), hi(h) {}
  MINITE_INLINE explicit vi(uint32_t x) : lo(_mm256_set1_epi32(static_cast<int>(x))), hi(lo) {}
};
struct vmask {
  __m256 lo, hi;
};

MINITE_INLINE vf operator+(vf a, vf b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
MINITE_INLINE vf operator-(vf a, vf b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
MINITE_INLINE vf operator*(vf a, vf b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
MINITE_INLINE vf operator/(vf a, vf b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
MINITE_INLINE vf fma(vf a, vf b, vf c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
MINITE_INLINE vf sqrt(vf a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
MINITE_INLINE vmask operator<(vf a, vf b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
MINITE_INLINE vmask is_nan(vf a) {
  return {_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
MINITE_INLINE vmask first_lanes(int64_t n) {
  const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, high))};
}
MINITE_INLINE vf select(vmask m, vf x, vf y) {
  return {_mm256_blendv_ps(y.lo, x.lo, m.lo), _mm256_blendv_ps(y.hi, x.hi, m.hi)};
}
MINITE_INLINE vi bits(vf a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
MINITE_INLINE vf from_bits(vi a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
MINITE_INLINE vi select(vmask m, vi x, vi y) { return bits(select(m, from_bits(x), from_bits(y))); }
MINITE_INLINE vi operator+(vi a, vi b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
MINITE_INLINE vi operator-(vi a, vi b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
MINITE_INLINE vi operator&(vi a, vi b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
MINITE_INLINE vi operator|(vi a, vi b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
MINITE_INLINE vi max_u32(vi a, vi b) { return {_mm256_max_epu32(a.lo, b.lo), _mm256_max_epu32(a.hi, b.hi)}; }
template <int n>
MINITE_INLINE vi shift_left(vi a) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
template <int n>
MINITE_INLINE vi shift_right(vi a) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
template <int n>
MINITE_INLINE vi shift_right_signed(vi a) {
  return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
MINITE_INLINE vf to_float(vi a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

MINITE_INLINE vf load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
MINITE_INLINE __m256 widen(__m128i h) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
MINITE_INLINE vf load(const bf16* p) {
  return {widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
MINITE_INLINE vf load(const float* p, int64_t n) {
  alignas(32) float tmp[kLanes] = {};
  std::memcpy(tmp, p, static_cast<size_t>(n) * sizeof(float));
  return load(tmp);
}
MINITE_INLINE void store(float* p, vf x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
MINITE_INLINE void store(float* p, vf x, int64_t n) {
  alignas(32) float tmp[kLanes];
  store(tmp, x);
  std::memcpy(p, tmp, static_cast<size_t>(n) * sizeof(float));
}
MINITE_INLINE void store_u16(void* p, vi x) {
  const __m256i low = _mm256_set1_epi32(0xFFFF);
  const __m256i packed = _mm256_packus_epi32(_mm256_and_si256(x.lo, low), _mm256_and_si256(x.hi, low));
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
}
MINITE_INLINE void store_u8(void* p, vi x) {
  const __m256i low = _mm256_set1_epi32(0xFF);
  __m256i w = _mm256_packus_epi32(_mm256_and_si256(x.lo, low), _mm256_and_si256(x.hi, low));
  w = _mm256_permute4x64_epi64(w, 0xD8);
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
MINITE_INLINE vi load_u8(const void* p) {
  const __m128i b = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(b), _mm256_cvtepu8_epi32(_mm_srli_si128(b, 8))};
}

MINITE_INLINE float fold_add(vf x) {
  const __m256 a = _mm256_add_ps(x.lo, x.hi);
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
MINITE_INLINE float fold_max(vf x) {
  const __m256 a = _mm256_max_ps(x.lo, x.hi);
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}
MINITE_INLINE uint32_t fold_max_u32(vi x) {
  const __m256i a = _mm256_max_epu32(x.lo, x.hi);
  __m128i b = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  b = _mm_max_epu32(b, _mm_shuffle_epi32(b, 0x4E));
  b = _mm_max_epu32(b, _mm_shuffle_epi32(b, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(b));
}
/// table[x & 15] for a table whose entry 8 + i is the negative of entry i
MINITE_INLINE __m256 lookup_signed(__m256 magnitudes, __m256i x) {
  const __m256 m = _mm256_permutevar8x32_ps(magnitudes, x);
  return _mm256_xor_ps(m, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(x, 3), 31)));
}
MINITE_INLINE vf lookup16(const float* table, vi x) {
  const __m256 m = _mm256_loadu_ps(table);
  return {lookup_signed(m, x.lo), lookup_signed(m, x.hi)};
}

#endif

// --- the primitives of core/math.h -------------------------------------------------------------------
MINITE_INLINE vf select_lt(vf a, vf b, vf x, vf y) { return select(a < b, x, y); }
MINITE_INLINE vf scale_by_power(vf x, vf shifted) {
  const vi n = bits(shifted) - vi(0x4B400000u);
  const vi half = shift_right_signed<1>(n);
  const vf a = from_bits(shift_left<23>(half + vi(127u)));
  const vf b = from_bits(shift_left<23>(n - half + vi(127u)));
  return x * a * b;
}
MINITE_INLINE vf split(vf x, vf& e) {
  const vi u = bits(x) - vi(0x3F3504F3u);
  e = to_float(shift_right_signed<23>(u));
  return from_bits((u & vi(0x007FFFFFu)) + vi(0x3F3504F3u));
}

// --- BF16 and partial rows -----------------------------------------------------------------------------
/// BF16 bits of each lane: nearest even, NaN stays NaN with its quiet bit set.
MINITE_INLINE vi round_bf16(vf x) {
  const vi u = bits(x);
  const vi rounded = shift_right<16>(u + vi(0x7FFFu) + (shift_right<16>(u) & vi(1u)));
  return select(is_nan(x), shift_right<16>(u) | vi(0x40u), rounded);
}
/// x rounded to BF16, as FP32.
MINITE_INLINE vf rounded_to(bf16, vf x) { return from_bits(shift_left<16>(round_bf16(x))); }
MINITE_INLINE vf rounded_to(float, vf x) { return x; }

MINITE_INLINE void store(bf16* p, vf x) { store_u16(p, round_bf16(x)); }
MINITE_INLINE void store(bf16* p, vf x, int64_t n) {
  alignas(32) bf16 tmp[kLanes];
  store(tmp, x);
  std::memcpy(static_cast<void*>(p), tmp, static_cast<size_t>(n) * sizeof(bf16));
}
MINITE_INLINE vf load(const bf16* p, int64_t n) {
  alignas(32) bf16 tmp[kLanes] = {};
  std::memcpy(static_cast<void*>(tmp), p, static_cast<size_t>(n) * sizeof(bf16));
  return load(tmp);
}

/// Calls body(i, n) for n = 16 lanes at i = 0, 16, ... and once for the rest n < 16. Body takes a count so
/// that it can choose between whole and partial loads.
template <class Body>
MINITE_INLINE void for_lanes(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, int64_t{kLanes});
  if (i < count) body(i, count - i);
}
template <class T>
MINITE_INLINE vf load_n(const T* p, int64_t n) {
  return n == kLanes ? load(p) : load(p, n);
}
template <class T>
MINITE_INLINE void store_n(T* p, vf x, int64_t n) {
  n == kLanes ? store(p, x) : store(p, x, n);
}

/// The canonical reduction of backends/ref/numeric.h: step(acc, i, n) returns acc with n more elements
/// added; lanes past the end keep their value.
template <class Step>
MINITE_INLINE float lane_sum(int64_t count, const Step& step) {
  vf acc;
  for_lanes(count, [&](int64_t i, int64_t n) {
    const vf next = step(acc, i, n);
    acc = n == kLanes ? next : select(first_lanes(n), next, acc);
  });
  return fold_add(acc);
}

/// The value of one lane-type function for a scalar, so that scalars inside kernels share its bits.
template <class F>
MINITE_INLINE float scalar(const F& f, float x) {
  alignas(64) float tmp[kLanes];
  store(tmp, f(vf(x)));
  return tmp[0];
}

}  // namespace minite::simd::MINITE_ISA
