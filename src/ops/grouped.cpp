// Ops over groups whose bounds the host need not know: arguments checked, then run.
#include "ops/check.h"
#include "ops/ops.h"

namespace minite {
namespace {

/// Rows [begin, begin + rows) of an operand by rows, or the block of lines of group g. An outer scale of the
/// group is the g-th.
Operand part_of(const Operand& x, int64_t begin, int64_t rows, int64_t g) {
  Operand part = x;
  part.prepacked = nullptr;
  if (!x.quantized()) {
    part.dense = x.dense.slice_rows(begin, rows);
    return part;
  }
  part.q = x.q.slice_rows(begin, rows);
  if (x.q.spec.outer == OuterScale::expert) {
    part.q.outer += g;
    part.q.amax += g;
  }
  if (!x.decoded.empty()) part.decoded = x.decoded.slice_rows(begin, rows);
  return part;
}

}  // namespace

GemmArgs group_of(const GroupedGemmArgs& args, const GroupRows& g) {
  const bool turned = !args.b.quantized() && args.b.along == Orientation::columns;
  const int64_t lines = turned ? args.a.depth() : args.y.cols;
  return {part_of(args.a, g.begin, g.rows, g.group),
          part_of(args.b, g.group * lines, lines, g.group),
          {},
          args.y.slice_rows(g.begin, g.rows),
          Output::overwrite,
          Epilogue::minite,
          args.order};
}

GemmArgs group_of(const GroupedWgradArgs& args, const GroupRows& g) {
  return {Operand::of(args.a.slice_rows(g.begin, g.rows), Orientation::columns),
          Operand::of(args.b.slice_rows(g.begin, g.rows), Orientation::columns),
          {},
          args.y.slice_rows(g.group * args.a.cols, args.a.cols),
          args.output};
}

QuantizeArgs group_of(const GroupedQuantizeArgs& args, const GroupRows& g, int64_t padded) {
  const TensorView x = args.x.slice_rows(g.begin, g.rows);
  const Noise noise{args.noise.seed, args.noise.stream + static_cast<uint64_t>(g.group)};
  QTensor out = args.out;
  if (args.along == Orientation::rows) {
    out = args.out.slice_rows(g.begin, g.rows);
  } else {
    const int64_t block = out.spec.block_size(), begin = out.rows * padded;
    out.cols = (g.rows + block - 1) / block * block;
    if (out.codes != nullptr) {
      out.codes += begin * format(out.spec.format).bits / 8;
      out.block_scales += begin / block;
    }
    if (out.spec.outer == OuterScale::row) {
      out.outer += g.group * out.rows;
      out.amax += g.group * out.rows;
    }
  }
  if (out.spec.outer == OuterScale::expert) {
    out.outer += g.group;
    out.amax += g.group;
  }
  QuantizeArgs one{x, args.along, out, noise};
  if (args.along == Orientation::rows && !args.decoded.empty())
    one.decoded = args.decoded.slice_rows(g.begin, g.rows);
  return one;
}

namespace ops {
namespace {

/// Bounds in a device's memory are not looked at.
void check_bounds(const Context& ctx, std::string_view op, const GroupBounds& groups, int64_t rows) {
  require(groups.offset != nullptr && groups.count >= 1, "{}: no groups", op);
  if (ctx.table->memory != nullptr) return;
  require(groups.offset[0] == 0, "{}: group 0 begins at row {}", op, groups.offset[0]);
  for (int64_t g = 0; g < groups.count; ++g) {
    const int32_t begin = groups.offset[g], end = groups.offset[g + 1];
    require(begin <= end && end <= rows, "{}: group {} begins at row {} and ends at row {} of {}", op, g,
            begin, end, rows);
  }
}

void check_weights(const GroupedGemmArgs& args) {
  const int64_t k = args.a.depth(), n = args.y.cols, experts = args.groups.count;
  const bool turned = !args.b.quantized() && args.b.along == Orientation::columns;
  const int64_t rows = turned ? args.b.dense.rows : args.b.rows(),
                cols = turned ? args.b.dense.cols : args.b.depth();
  require(rows == experts * (turned ? k : n) && cols == (turned ? n : k),
          "grouped_gemm: b is {}x{}, expected {} weights of {}x{}", rows, cols, experts, turned ? k : n,
          turned ? n : k);
  check_optional("grouped_gemm", "decoded weights", args.b.decoded, rows, cols, DType::bf16);
  check_optional("grouped_gemm", "decoded rows", args.a.decoded, args.a.rows(), k, DType::bf16);
}

void check_scales(std::string_view name, const GroupScales& s) {
  require((s.per == OuterScale::none) == (s.scale == nullptr), "grouped_wgrad: scales of {} are {} and {}",
          name, to_string(s.per), s.scale == nullptr ? "absent" : "given");
}

}  // namespace

void grouped_gemm(const Context& ctx, const GroupedGemmArgs& args) {
  check_bounds(ctx, "grouped_gemm", args.groups, args.a.rows());
  require(args.a.quantized() || args.a.along == Orientation::rows,
          "grouped_gemm: a must be packed along rows");
  require(!args.a.quantized() || args.a.q.spec.outer != OuterScale::tensor,
          "grouped_gemm: a scale of {} would span the groups of a; use outer=row or expert",
          to_string(args.a.q.spec));
  const DType dtype = args.y.dtype;
  require(dtype == DType::bf16 || dtype == DType::f32, "grouped_gemm: y is {}, expected bf16 or f32",
          dtype_name(dtype));
  check_shape("grouped_gemm", "y", args.y, args.a.rows(), args.y.cols, dtype);
  require(args.a.depth() > 0, "grouped_gemm: K=0");
  check_weights(args);
  const GemmProblem problem{args.a.format(), args.b.format(),  dtype,     args.y.cols,
                            args.a.depth(),  Epilogue::minite, args.order};
  check_scratch("grouped_gemm", ctx.scratch,
                ctx.table->grouped_scratch(problem, args.y.rows, args.groups.count, ctx.pool->threads()));
  if (args.y.size() > 0) ctx.table->grouped_gemm(args, ctx.exec());
}

void grouped_wgrad(const Context& ctx, const GroupedWgradArgs& args) {
  check_bounds(ctx, "grouped_wgrad", args.groups, args.a.rows);
  check_shape("grouped_wgrad", "a", args.a, args.a.rows, args.a.cols, DType::bf16);
  check_shape("grouped_wgrad", "b", args.b, args.a.rows, args.b.cols, DType::bf16);
  check_shape("grouped_wgrad", "y", args.y, args.groups.count * args.a.cols, args.b.cols, DType::f32);
  check_scales("a", args.as);
  check_scales("b", args.bs);
  if (args.y.size() > 0) ctx.table->grouped_wgrad(args, ctx.exec());
}

void grouped_quantize(const Context& ctx, const GroupedQuantizeArgs& args) {
  const QTensor& out = args.out;
  const QuantSpec& spec = out.spec;
  const bool rows = args.along == Orientation::rows;
  check_bounds(ctx, "grouped_quantize", args.groups, args.x.rows);
  require(args.x.dtype == DType::bf16 || args.x.dtype == DType::f32,
          "grouped_quantize: x is {}, expected bf16 or f32", dtype_name(args.x.dtype));
  require(spec.quantized(), "grouped_quantize: {} has no codes", to_string(spec));
  require(
      spec.outer != OuterScale::tensor && spec.blocks == BlockShape::row,
      "grouped_quantize: the scales of {} would span groups; use outer=row or expert, and blocks of a row",
      to_string(spec));
  require(!rows || spec.rotation == Rotation::none,
          "grouped_quantize: {} rotates tokens, so x must be read by columns", to_string(spec));
  require(args.decoded.empty() || spec.rotation == Rotation::none,
          "grouped_quantize: {} decodes to more rows than a group has", to_string(spec));
  const int64_t lines = rows ? args.x.rows : args.x.cols,
                cols = rows ? args.x.cols : padded_rows(args.x.rows, args.groups.count, spec.block_size());
  require(out.rows == lines && out.cols == cols, "grouped_quantize: codes are {}x{}, expected {}x{}",
          out.rows, out.cols, lines, cols);
  require((out.codes == nullptr) == (out.block_scales == nullptr) &&
              (out.codes != nullptr || (!rows && !args.decoded.empty())),
          "grouped_quantize: codes may be absent along columns, where values are decoded");
  require(spec.outer == OuterScale::none || (out.outer != nullptr && out.amax != nullptr),
          "grouped_quantize: {} needs places for outer scales and amaxes", to_string(spec));
  check_optional("grouped_quantize", "decoded", args.decoded, args.x.rows, args.x.cols, DType::bf16);
  if (args.x.size() > 0) ctx.table->grouped_quantize(args, ctx.exec());
}

}  // namespace ops
}  // namespace minite
