#pragma once
// Launchers of the ops that produce activations, and of the same ops with codes of their output in one pass.
#include "backends/op_table.h"

namespace minite::cuda {

void norm_rows(const NormArgs& args, const Exec& exec);
void swiglu_elements(const SwigluArgs& args, const Exec& exec);
void add_elements(const AddArgs& args, const Exec& exec);
void permute_rows(const PermuteArgs& args, const Exec& exec);

/// One pass: BF16 rows in whole blocks on 16-byte boundaries, NVFP4 without an outer scale or with one a row.
/// `add` and `out` may be nullptr: without a sum, without codes.
[[nodiscard]] bool fused_norm_fits(const NormArgs& args, const AddArgs* add, const QTensor* out);
void fused_norm(const NormArgs& args, const AddArgs* add, const QTensor* out, const Exec& exec);
/// Likewise.
[[nodiscard]] bool fused_swiglu_fits(const SwigluArgs& args, const QTensor* out);
void fused_swiglu(const SwigluArgs& args, const QTensor* out, const Exec& exec);
[[nodiscard]] bool fused_permute_fits(const PermuteArgs& args, const QTensor* out);
void fused_permute(const PermuteArgs& args, const QTensor* out, const Exec& exec);

}  // namespace minite::cuda
