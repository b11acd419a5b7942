#pragma once
// Products of at most 64 rows with packed NVFP4 weights.
#include "backends/cuda/common/epilogue.h"

namespace minite::cuda::sm90 {

inline constexpr float kPackedGain = 256.0f;  ///< what the sums of packed weights lack (decode.h)
inline constexpr int64_t kFewTokens = 64;
inline constexpr int64_t kFewDepth = 256;  ///< K must be a multiple

/// Weights [N, K] as stored, and the tokens' values [M, K] in BF16.
struct FewOperands {
  const uint8_t* codes;   ///< rows at multiples of 16 bytes
  const uint8_t* scales;  ///< rows at multiples of 16 bytes
  int64_t code_stride, scale_stride;
  bool unsigned_scales;  ///< ggml's
  const uint16_t* x;     ///< rows at multiples of 16 bytes
  int64_t x_stride;
};

/// Bytes of shared memory that a block needs.
[[nodiscard]] int64_t few_memory(int64_t tokens, int64_t rows, int64_t depth);
void gemm_few(const FewOperands& in, int64_t tokens, int64_t rows, int64_t depth,
              const DeviceEpilogue& epilogue, void* stream);

}  // namespace minite::cuda::sm90
