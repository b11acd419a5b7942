#include "backends/ref/grouped.h"

#include <vector>

#include "backends/ref/quantize.h"

namespace minite::ref {
namespace {

/// body(rows of group g) for each group that has rows.
template <class Body>
void for_groups(const GroupBounds& groups, const Body& body) {
  for (int64_t g = 0; g < groups.count; ++g) {
    const int64_t begin = groups.offset[g], rows = groups.offset[g + 1] - begin;
    if (rows > 0) body(GroupRows{g, begin, rows});
  }
}

/// Multiplier of line i of group g; `lines` a group.
float scale_of(const GroupScales& s, int64_t g, int64_t lines, int64_t i) {
  return s.scale[s.per == OuterScale::row ? g * lines + i : s.per == OuterScale::expert ? g : 0];
}

/// out.codes along columns, written to x's places.
void decode_columns(const QTensor& q, const TensorView& to) {
  for (int64_t r = 0; r < to.rows; ++r) {
    for (int64_t c = 0; c < to.cols; ++c) to.row<bf16>(r)[c] = bf16(decode_element(q, c, r));
  }
}

}  // namespace

void grouped_gemm(const GroupedGemmArgs& args, const Exec& exec, Gemm gemm) {
  for_groups(args.groups, [&](const GroupRows& g) { gemm(group_of(args, g), exec); });
}

void grouped_wgrad_line(const GroupedWgradArgs& args, int64_t g, int64_t n) {
  const int64_t begin = args.groups.offset[g], end = args.groups.offset[g + 1];
  const int64_t lines = args.a.cols, cols = args.b.cols;
  float* y = args.y.row<float>(g * lines + n);
  const bool adds = args.output == Output::accumulate;
  if (begin == end && adds) return;
  for (int64_t k = 0; k < cols; ++k) {
    float acc = 0;
    for (int64_t r = begin; r < end; ++r) {
      acc = math::fma(static_cast<float>(args.a.row<const bf16>(r)[n]),
                      static_cast<float>(args.b.row<const bf16>(r)[k]), acc);
    }
    if (begin < end && !args.as.empty()) acc = acc * scale_of(args.as, g, lines, n);
    if (begin < end && !args.bs.empty()) acc = acc * scale_of(args.bs, g, cols, k);
    y[k] = adds ? acc + y[k] : acc;
  }
}

void grouped_wgrad(const GroupedWgradArgs& args) {
  for (int64_t g = 0; g < args.groups.count; ++g) {
    for (int64_t n = 0; n < args.a.cols; ++n) grouped_wgrad_line(args, g, n);
  }
}

void grouped_quantize(const GroupedQuantizeArgs& args, const Exec& exec, Quantize quantize) {
  const bool columns = args.along == Orientation::columns;
  const int64_t block = args.out.spec.block_size();
  int64_t padded = 0;
  std::vector<uint8_t> codes, scales;  // where nobody wants them
  for_groups(args.groups, [&](const GroupRows& g) {
    QuantizeArgs one = group_of(args, g, padded);
    if (one.out.codes == nullptr) {
      codes.resize(static_cast<size_t>(one.out.rows * one.out.code_stride()));
      scales.resize(static_cast<size_t>(one.out.rows * one.out.scale_stride()));
      one.out.codes = codes.data();
      one.out.block_scales = scales.data();
    }
    quantize(one, exec);
    if (columns && !args.decoded.empty()) decode_columns(one.out, args.decoded.slice_rows(g.begin, g.rows));
    padded += (g.rows + block - 1) / block * block;
  });
}

}  // namespace minite::ref
