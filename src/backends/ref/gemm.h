#pragma once
// y = epilogue(a b^T) in the canonical order.
//
//   NVFP4 x NVFP4: blocks of 16 ascending; in a block the dot of codes is an exact multiple of 1/4 and
//                  its product with d_a * d_b is exact in FP32, so acc = fl(acc + exact): one rounding a
//                  block.
//   otherwise:     acc = fma(a_k, b_k, acc), k ascending, FP32 (FP64 operands: FP64).
//   epilogue:      fl(fl(acc * s_row) * s_col), + bias, + y when accumulating, one rounding to y's dtype.
#include "backends/op_table.h"

namespace minite::ref {

Support supports_gemm(const GemmProblem& problem);
int64_t gemm_scratch(const GemmProblem& problem, int64_t m, int threads);
void gemm(const GemmArgs& args);

}  // namespace minite::ref
