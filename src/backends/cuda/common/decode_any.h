#pragma once
// Codes to BF16 without their outer scale, element by element: for what the quantizers' decode does not know.
#include "backends/op_table.h"

namespace minite::cuda {

/// y [q.rows, q.cols] bf16. Takes every operand that device_operand() takes.
void decode_any(const QTensor& q, const TensorView& y, const Exec& exec);

}  // namespace minite::cuda
