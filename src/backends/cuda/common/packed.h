#pragma once
// Pairs of BF16 in 32-bit words, lower half first, and E2M1 codes eight to a word. For .cu files only.
#include <cuda_runtime.h>

#include <cstdint>

namespace minite::cuda {

__device__ inline float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

/// Rounds both to BF16, nearest even. The processor's NaN is 0x7FFF where bf16() keeps bits of the source.
__device__ inline uint32_t pack_bf16(float lower, float upper) {
  uint32_t pair = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
}
/// Both products, rounded to BF16.
__device__ inline uint32_t multiply_bf16(uint32_t a, uint32_t b) {
  uint32_t y = 0;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

/// Value of an E4M3 byte by the processor's conversion, exact; NaN stays NaN.
__device__ inline float e4m3_value(uint32_t byte) {
  uint32_t half = 0;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(half) : "h"(static_cast<uint16_t>(byte)));
  float d = 0;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(d) : "r"(half));
  return d;
}

/// Values of eight E2M1 codes, exact. The three bits of a magnitude select one of eight bytes: prmt takes its
/// selectors from nibbles. Upper bytes of 0 .5 1 1.5 2 3 4 6 in BF16: 00 3F 3F 3F 40 40 40 40, lower bytes:
/// 00 00 80 C0 00 40 80 C0.
__device__ inline void decode_e2m1(uint32_t codes, uint32_t pairs[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t four = codes >> (16 * half), select = four & 0x7777u;
    const uint32_t upper = __byte_perm(0x3F3F3F00u, 0x40404040u, select);
    const uint32_t lower = __byte_perm(0xC0800000u, 0xC0804000u, select);
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const uint32_t two = four >> (8 * p);
      const uint32_t sign = (two << 12 & 0x8000u) | (two << 24 & 0x80000000u);
      pairs[2 * half + p] = __byte_perm(lower, upper, p == 0 ? 0x5140 : 0x7362) | sign;
    }
  }
}

}  // namespace minite::cuda
