#pragma once
// NVFP4 codes of a matrix along its rows, along its columns, or both from one look at it.
#include "backends/cuda/quantize/job.h"
#include "backends/op_table.h"

namespace minite::cuda {

/// BF16 in whole blocks of rows and of columns on 16-byte boundaries, without 4over6, both ways alike: to
/// nearest or stochastic with blocks of a row, of which columns may be rotated, or to nearest with tiles of
/// 16 x 16. An empty `out` leaves its way away; rows alone are for tiles of 16 x 16.
[[nodiscard]] bool both_fit(const QuantizeBothArgs& args);
/// One launch without outer scales. With them zeros, amaxes and codes; or, with scales a row and a column to
/// nearest, zeros, the codes of rows with the columns' amaxes, and the codes of columns.
void quantize_tiles(const QuantizeBothArgs& args, const Exec& exec);

}  // namespace minite::cuda
