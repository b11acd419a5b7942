#pragma once
// What the bulk tensor copy engine must know of a BF16 matrix in global memory.
#include <cuda.h>

#include "backends/cuda/sm90/major.h"
#include "minite/tensor.h"

namespace minite::cuda::sm90 {

inline constexpr int kDepth = 64;  ///< k of one copied box: 128 bytes of BF16, one swizzled line

/// Why the copy engine cannot read `x`, "" when it can: it wants 16-byte starts and row pitches.
[[nodiscard]] std::string tensor_map_problem(const TensorView& x);

/// The map of an operand. Major::k: x is [R, K] and a box holds `rows` rows by 64 k. Major::rows: x is [K, R]
/// and a box holds 64 k by 64 rows. Needs tensor_map_problem(x) to be "".
[[nodiscard]] CUtensorMap tensor_map(const TensorView& x, Major major, int rows);

/// The same for `count` operands one below the other: a box ends with its operand, and what it holds past
/// that is 0.
[[nodiscard]] CUtensorMap stacked_map(const TensorView& x, Major major, int rows, int64_t count);

/// The map of an output [M, N] bf16 or f32 that is written 128 bytes of columns and `rows` rows at a time, in
/// 128-byte swizzle. Needs tensor_map_problem(y) to be "".
[[nodiscard]] CUtensorMap output_map(const TensorView& y, int rows);

}  // namespace minite::cuda::sm90
