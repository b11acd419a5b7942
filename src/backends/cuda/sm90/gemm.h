#pragma once
// Products on Hopper's tensor cores.
#include <cuda.h>

#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/major.h"

namespace minite::cuda::sm90 {

/// A product of two BF16 matrices that the copy engine can read.
struct DenseProduct {
  TensorView a, b;
  Major a_major = Major::k, b_major = Major::k;  ///< k: [R, K]; rows: [K, R]
  int64_t m = 0, n = 0, k = 0;
  int64_t chunk = 0;  ///< k of a chunk (chunks.h)
};

/// Many rows: tiles of 128 x 256 where one chain spans K, of 128 x 192 where chunks need a second
/// accumulator.
void gemm_wide(const DenseProduct& product, const DeviceEpilogue& epilogue, void* stream);
void gemm_chunked(const DenseProduct& product, const DeviceEpilogue& epilogue, void* stream);

}  // namespace minite::cuda::sm90
