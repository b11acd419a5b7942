#pragma once
// The register kernels: kRows x kPanel accumulators that walk the whole depth, so that each element is one
// chain in the canonical order whatever the tiling.
#include "backends/simd/gemm_pack.h"

namespace minite::simd::MINITE_ISA {

// Independent chains hide the fma latency (4 cycles, 2 a cycle: 8 chains at least). AVX-512 has 32
// registers: 12 x 2 accumulators + 2 of the panel + the broadcast. AVX2 has 16 of half the width: 6 x 2.
#ifdef __AVX512F__
inline constexpr int kChainRows = 12;
#else
inline constexpr int kChainRows = 6;
#endif

/// c[kRows][ldc] (+)= a[kRows][kTileStride] panel[depth][kPanel]; starts from c when `resume`.
using Kernel = void (*)(const float* a, const float* panel, int64_t depth, bool resume, float* c,
                        int64_t ldc);

template <int kRows>
struct Accumulators {
  vf v[kRows][kPanelVectors];
  MINITE_INLINE void load_from(const float* c, int64_t ldc) {
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < kPanelVectors; ++j) v[r][j] = load(c + r * ldc + j * kLanes);
    }
  }
  MINITE_INLINE void store_to(float* c, int64_t ldc) const {
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < kPanelVectors; ++j) store(c + r * ldc + j * kLanes, v[r][j]);
    }
  }
  /// One step of the contracted index.
  MINITE_INLINE void step(const float* a, const float* b) {
    vf column[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) column[j] = load(b + j * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const vf broadcast(a[r * kTileStride]);
      for (int j = 0; j < kPanelVectors; ++j) v[r][j] = fma(broadcast, column[j], v[r][j]);
    }
  }
};

/// acc = fma(a_k, b_k, acc), k ascending.
template <int kRows>
void chain_kernel(const float* a, const float* panel, int64_t depth, bool resume, float* c, int64_t ldc) {
  Accumulators<kRows> acc;
  if (resume) acc.load_from(c, ldc);
  for (int64_t k = 0; k < depth; ++k) acc.step(a + k, panel + k * kPanel);
  acc.store_to(c, ldc);
}

}  // namespace minite::simd::MINITE_ISA
