#pragma once
// The synchronous matrix instruction, mma.sync.m16n8k16 on BF16 with FP32 accumulators. On
// an H200 it gives the bits of wgmma for the same k in the same order. Lane l = 4 g + t holds
//   a[0], a[1]: rows g, g + 8, k 2t, 2t+1;  a[2], a[3]: the same rows, k 2t+8, 2t+9
//   b[0], b[1]: column g, k 2t, 2t+1 and 2t+8, 2t+9
//   d[0], d[1]: row g, columns 2t, 2t+1;  d[2], d[3]: row g + 8
#include <cstdint>

namespace minite::cuda::sm90 {

__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace minite::cuda::sm90
