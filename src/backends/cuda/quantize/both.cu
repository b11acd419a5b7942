// NVFP4 along columns, or both ways from one look at x: to nearest, and the choice among the other ways.
#include "backends/cuda/quantize/both.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/tile_kernel.h"

namespace minite::cuda {
namespace {

/// none where no kernel here takes a call.
Way way_of(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  const bool fits = spec.format == FormatId::nvfp4 && spec.convention == Convention::te &&
                    spec.search == ScaleSearch::amax && vectors_fit(args.out) &&
                    (args.decoded.empty() || vectors_fit(args.decoded, 16));
  const bool noise = spec.rounding == Rounding::stochastic, small = spec.blocks == BlockShape::tile;
  if (!fits || (noise && small)) return Way::none;
  return noise ? Way::noise : small ? Way::tile : Way::nearest;
}
const TensorView& matrix_of(const QuantizeBothArgs& args) {
  return args.rows.out.empty() ? args.columns.x : args.rows.x;
}

}  // namespace

namespace {
template <Way kRows, bool kRotated>
TileLaunch by_decoded(bool decoded) {
  return decoded ? launch_tiles<kRows, Way::nearest, kRotated, true>
                 : launch_tiles<kRows, Way::nearest, kRotated, false>;
}
}  // namespace

TileLaunch nearest_tiles(bool rows, bool rotated, bool decoded) {
  if (rows)
    return rotated ? by_decoded<Way::nearest, true>(decoded) : by_decoded<Way::nearest, false>(decoded);
  return rotated ? by_decoded<Way::none, true>(decoded) : by_decoded<Way::none, false>(decoded);
}

bool both_fit(const QuantizeBothArgs& args) {
  const TensorView& x = matrix_of(args);
  if (x.dtype != DType::bf16 || !vectors_fit(x, 16) || x.rows % 16 != 0) return false;
  const bool rows = !args.rows.out.empty(), columns = !args.columns.out.empty();
  const Way by_rows = rows ? way_of(args.rows) : Way::none,
            by_columns = columns ? way_of(args.columns) : Way::none;
  if (!rows) return by_columns != Way::none;
  if (!columns) return by_rows == Way::tile;  // rows.cu has the others
  return by_rows != Way::none && by_rows == by_columns;
}

namespace {
/// Whether columns have amaxes of x's own columns: then one pass over x finds them while it quantizes rows.
bool rows_first(const QuantizeBothArgs& args) {
  const QuantSpec& spec = args.columns.out.spec;
  return !args.rows.out.empty() && !args.columns.out.empty() && domain_of(spec) == Domain::row &&
         way_of(args.columns) == Way::nearest && spec.rotation == Rotation::none && rows_amax_fit(args.rows);
}
}  // namespace

void quantize_tiles(const QuantizeBothArgs& args, const Exec& exec) {
  if (rows_first(args)) {
    const QuantizeJob columns = quantize_job(args.columns);
    const TensorView& x = args.columns.x;
    quantize_rows_amax(args.rows, columns.out.amax, exec);
    return nearest_tiles(false, false, columns.decoded != nullptr)(
        {.m = {x.as<const bf16>(), x.stride, x.rows, x.cols},
         .rows = {},
         .columns = columns,
         .upwards = true},
        exec);
  }
  const TensorView& x = matrix_of(args);
  const bool rows = !args.rows.out.empty(), columns = !args.columns.out.empty();
  const TileJob job = {.m = {x.as<const bf16>(), x.stride, x.rows, x.cols},
                       .rows = rows ? quantize_job(args.rows) : QuantizeJob{},
                       .columns = columns ? quantize_job(args.columns) : QuantizeJob{},
                       .upwards = true};
  matrix_amaxes(job.m, rows ? &job.rows : nullptr, columns ? &job.columns : nullptr, exec);
  const Way way = way_of(rows ? args.rows : args.columns);
  const bool rotated = columns && job.columns.x.rotated,
             decoded = job.rows.decoded != nullptr || job.columns.decoded != nullptr;
  const TileLaunch launch = way == Way::noise  ? noisy_tiles(rows, rotated)
                            : way == Way::tile ? small_tiles(rows, columns)
                                               : nearest_tiles(rows, rotated, decoded);
  launch(job, exec);
}

}  // namespace minite::cuda
