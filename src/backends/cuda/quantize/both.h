#pragma once
// NVFP4 codes of a matrix along its rows, along its columns, or both from one look at it.
#include "backends/cuda/quantize/job.h"
#include "backends/op_table.h"

namespace minite::cuda {

/// BF16 in whole blocks of rows and of columns on 16-byte boundaries, nearest, blocks of a row; columns may
/// be rotated.
[[nodiscard]] bool both_fit(const QuantizeBothArgs& args);
/// Two launches with outer scales (amaxes, then codes), else one. An empty args.rows.out leaves rows away.
void quantize_tiles(const QuantizeBothArgs& args, const Exec& exec);

}  // namespace minite::cuda
