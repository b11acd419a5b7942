#pragma once
// Products of many tokens with prepacked NVFP4 weights.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/fragments.h"
#include "minite/tensor.h"

namespace minite::cuda::sm90 {

/// More tokens pay for decoding the weights once into BF16.
inline constexpr int64_t kPackedTokens = 512;

/// Whether the sums of K's chunks have room in a cluster's shared memory; K up to 32768 has always.
[[nodiscard]] bool packed_fits(int64_t n, int64_t k);

/// x [M, K] bf16, readable by the copy engine; w are weights [rows, K]. The sums lack kFragmentGain, which
/// `epilogue` holds.
void gemm_packed(const Fragments& w, const TensorView& x, int64_t rows, const DeviceEpilogue& epilogue,
                 void* stream);

}  // namespace minite::cuda::sm90
