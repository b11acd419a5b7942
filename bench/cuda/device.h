#pragma once
// Kernels of the benchmark itself: the copy that gives the ceiling, and data.
#include <cuda_runtime.h>

#include <cstdint>

namespace minite::bench {

/// Reads and writes `bytes`, a multiple of 16; `vectors` loads of 16 bytes of a thread are in flight
/// together: 1, 2, 4 or 8.
void copy(void* to, const void* from, int64_t bytes, int vectors, cudaStream_t stream);

/// rows x cols BF16 of N(0, 1); every 64th row is an outlier, 32 times as large.
void fill_normal(void* to, int64_t rows, int64_t cols, uint64_t seed, cudaStream_t stream);

}  // namespace minite::bench
