#pragma once

namespace minite::cuda::sm90 {

/// How an operand [R, K] lies in memory: rows of k (Major::k), or as its transpose, a line of matrix rows for
/// each k (Major::rows). The numbers are those of the matrix instruction.
enum class Major : int { k = 0, rows = 1 };

}  // namespace minite::cuda::sm90
