#pragma once
// Products of many rows with packed NVFP4 weights.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/gemm_few.h"
#include "minite/tensor.h"

namespace minite::cuda::sm90 {

inline constexpr int64_t kPackedDepth = 256;  ///< K must be a multiple

/// More tokens pay for decoding the weights once into BF16.
inline constexpr int64_t kPackedTokens = 512;

/// x [M, K] bf16, readable by the copy engine; `in` describes the weights [rows, K].
void gemm_packed(const FewOperands& in, const TensorView& x, int64_t rows, const DeviceEpilogue& epilogue,
                 void* stream);

}  // namespace minite::cuda::sm90
