#pragma once
// Products of few tokens with prepacked NVFP4 weights.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/fragments.h"

namespace minite::cuda::sm90 {

inline constexpr int64_t kFewTokens = 64;

/// Weights [N, K], and the tokens' values [M, K] in BF16.
struct FewOperands {
  Fragments w;
  const uint16_t* x;  ///< rows at multiples of 16 bytes
  int64_t x_stride;   ///< elements
};

/// Whether K is whole pairs of fragments, and a block's shared memory holds its rings and sums.
[[nodiscard]] bool few_fits(int64_t tokens, int64_t n, int64_t k);

/// tokens = M <= kFewTokens, rows = N, depth = K. The sums lack kFragmentGain, which `epilogue` holds.
void gemm_few(const FewOperands& in, int64_t tokens, int64_t rows, int64_t depth,
              const DeviceEpilogue& epilogue, void* stream);

}  // namespace minite::cuda::sm90
