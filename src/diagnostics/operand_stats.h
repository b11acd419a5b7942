#pragma once
// Statistics of an operand by columns, as a backward product reads it.
#include <vector>

#include "diagnostics/tensor_stats.h"

namespace minite::diagnostics {

/// Working memory, which grows as needed.
struct OperandScratch {
  std::vector<float> turned, decoded;
};

/// Statistics of what a quantizer saw of `x` [R,C] by columns, and of its codes `q` [C, stored_cols(R)]. With
/// a rotation the values are the rotated ones, R filled up to whole groups of 16 with zeros before it, so
/// that `count` may be more than the elements of x. Error: unsupported for a dtype other than f32 and bf16.
struct OperandStats {
  ValueStats values;
  CodeStats codes;
};
[[nodiscard]] OperandStats measure_columns(const Context& ctx, const TensorView& x, const QTensor& q,
                                           OperandScratch& scratch);

}  // namespace minite::diagnostics
