#pragma once
// Outer amaxes of BF16 matrices, a pass of their own.
#include "backends/cuda/quantize/job.h"
#include "backends/op_table.h"

namespace minite::cuda {

/// BF16 rows of whole 16-byte vectors.
struct Matrix {
  const bf16* x;
  int64_t stride, rows, cols;
};

/// Amaxes of an operand that reads x by rows, of one that reads it by columns, or of both from one look at x;
/// nullptr leaves one away, and one without an outer scale has none. A rotated operand has amaxes of its own
/// values, by a pass of its own.
void matrix_amaxes(const Matrix& m, const QuantizeJob* rows, const QuantizeJob* columns, const Exec& exec);

}  // namespace minite::cuda
