#include "diagnostics/operand_stats.h"

#include <algorithm>

#include "core/fail.h"
#include "formats/hadamard.h"

namespace minite::diagnostics {
namespace {

constexpr int64_t kPiece = int64_t{1} << 16;  ///< elements that are turned at a time
constexpr int64_t kTile = 16;                 ///< rows of a 2D block and points of a rotation

/// Columns [begin, begin + count) of x as rows of `cols` elements, with zeros past x.rows.
template <class T>
void turn(const TensorView& x, int64_t begin, int64_t count, int64_t cols, float* out) {
  std::fill_n(out, count * cols, 0.0f);
  for (int64_t r = 0; r < x.rows; ++r) {
    const T* row = x.row<const T>(r) + begin;
    for (int64_t c = 0; c < count; ++c) out[c * cols + r] = static_cast<float>(row[c]);
  }
}

void rotate(float* x, int64_t count) {
  std::array<float, kTile> group;
  for (float* end = x + count; x < end; x += kTile) {
    std::copy_n(x, kTile, group.begin());
    group = hadamard(group);
    std::copy_n(group.begin(), kTile, x);
  }
}

}  // namespace

OperandStats measure_columns(const Context& ctx, const TensorView& x, const QTensor& q,
                             OperandScratch& scratch) {
  const int64_t cols = q.spec.stored_cols(x.rows);
  require(q.rows == x.cols && q.cols == cols,
          "statistics: codes are {}x{}, the columns of their values {}x{}", q.rows, q.cols, x.cols, cols);
  if (x.dtype != DType::f32 && x.dtype != DType::bf16) {
    fail(ErrorCode::unsupported, "statistics: a tensor of {}; f32 and bf16 are measured",
         dtype_name(x.dtype));
  }
  OperandStats all;
  const int64_t step = std::max(kTile, kPiece / std::max<int64_t>(1, cols) / kTile * kTile);
  scratch.turned.resize(std::max(scratch.turned.size(), static_cast<size_t>(std::min(step, q.rows) * cols)));
  for (int64_t begin = 0; begin < q.rows; begin += step) {
    const int64_t count = std::min(step, q.rows - begin);
    float* turned = scratch.turned.data();
    x.dtype == DType::f32 ? turn<float>(x, begin, count, cols, turned)
                          : turn<bf16>(x, begin, count, cols, turned);
    if (q.spec.rotation != Rotation::none) rotate(turned, count * cols);
    const TensorView values(turned, count, cols);
    all.values.merge(measure(ctx, values));
    all.codes.merge(measure_codes(ctx, q.slice_rows(begin, count), values, scratch.decoded));
  }
  return all;
}

}  // namespace minite::diagnostics
