#pragma once
// The 16-point Hadamard transform with Transformer Engine's signs, one block a lane (formula:
// backends/ref/quantize.h).
#include "backends/simd/quantize_search.h"
#include "formats/hadamard.h"

namespace minite::simd::MINITE_ISA {

MINITE_INLINE void hadamard(BlockLanes& block) {
  for (int i = 0; i < 16; ++i) {
    if ((kHadamardSigns >> i & 1u) != 0) store(block.v[i], from_bits(bits(block[i]) ^ vi(0x80000000u)));
  }
  for (int stride = 1; stride < 16; stride *= 2) {
    for (int i = 0; i < 16; ++i) {
      if ((i & stride) != 0) continue;
      const vf a = block[i], b = block[i + stride];
      store(block.v[i], a + b);
      store(block.v[i + stride], a - b);
    }
  }
  for (int i = 0; i < 16; ++i) store(block.v[i], rounded_to(bf16{}, block[i] * vf(0.25f)));
}

}  // namespace minite::simd::MINITE_ISA
