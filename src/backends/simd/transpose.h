#pragma once
// 16x16 FP32 transposes through registers.
#include "backends/simd/vec.h"

namespace minite::simd::MINITE_ISA {

#ifdef __AVX512F__
/// dst[j * ldd + i] = word j of row i, for 16 rows of 16 words that are `stride` bytes apart.
MINITE_INLINE void transpose16_bytes(const void* src, int64_t stride, float* dst, int64_t ldd) {
  __m512 r[16], t[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_ps(static_cast<const char*>(src) + i * stride);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
    r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
    r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
  }
  // Each r[4g + c] holds columns c, 4+c, 8+c, 12+c (one a 128-bit lane) of rows 4g .. 4g+3.
  for (int c = 0; c < 4; ++c) {
    const __m512 low0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
    const __m512 low1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    const __m512 high0 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xDD);
    const __m512 high1 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xDD);
    _mm512_storeu_ps(dst + c * ldd, _mm512_shuffle_f32x4(low0, low1, 0x88));
    _mm512_storeu_ps(dst + (4 + c) * ldd, _mm512_shuffle_f32x4(high0, high1, 0x88));
    _mm512_storeu_ps(dst + (8 + c) * ldd, _mm512_shuffle_f32x4(low0, low1, 0xDD));
    _mm512_storeu_ps(dst + (12 + c) * ldd, _mm512_shuffle_f32x4(high0, high1, 0xDD));
  }
}
#else
MINITE_INLINE void transpose8(const char* src, int64_t stride, float* dst, int64_t ldd) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(src + i * stride));
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  for (int c = 0; c < 4; ++c) {
    _mm256_storeu_ps(dst + c * ldd, _mm256_permute2f128_ps(r[c], r[4 + c], 0x20));
    _mm256_storeu_ps(dst + (4 + c) * ldd, _mm256_permute2f128_ps(r[c], r[4 + c], 0x31));
  }
}
/// dst[j * ldd + i] = word j of row i, for 16 rows of 16 words that are `stride` bytes apart.
MINITE_INLINE void transpose16_bytes(const void* src, int64_t stride, float* dst, int64_t ldd) {
  for (int i = 0; i < 16; i += 8) {
    for (int j = 0; j < 16; j += 8)
      transpose8(static_cast<const char*>(src) + i * stride + 4 * j, stride, dst + j * ldd + i, ldd);
  }
}
#endif

/// dst[j * ldd + i] = src[i * lds + j] for i, j < 16.
MINITE_INLINE void transpose16(const float* src, int64_t lds, float* dst, int64_t ldd) {
  transpose16_bytes(src, lds * int64_t{sizeof(float)}, dst, ldd);
}

}  // namespace minite::simd::MINITE_ISA
