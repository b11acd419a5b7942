// quantize, dequantize, transpose_codes, prepack, gemm: arguments checked, then run.
#include "ops/check.h"
#include "ops/ops.h"

namespace minite::ops {
namespace {

void check_quantized(std::string_view op, const QTensor& q, int64_t rows, int64_t cols) {
  require(!q.empty() && q.spec.quantized(), "{}: output format {} has no codes", op, to_string(q.spec));
  require(q.rows == rows && q.cols == cols, "{}: codes are {}x{}, expected {}x{}", op, q.rows, q.cols, rows,
          cols);
  require(q.outer_count() == 0 || (q.outer != nullptr && q.amax != nullptr),
          "{}: {} needs places for outer scales and amaxes", op, to_string(q.spec));
}

void check_source(std::string_view op, const TensorView& x) {
  require(x.dtype == DType::bf16 || x.dtype == DType::f32, "{}: x is {}, expected bf16 or f32", op,
          dtype_name(x.dtype));
}

void check_quantize(const QuantizeArgs& args) {
  check_source("quantize", args.x);
  const bool rows = args.along == Orientation::rows;
  const QuantSpec& spec = args.out.spec;
  require(!rows || spec.rotation == Rotation::none,
          "quantize: {} rotates tokens, so x must be read by columns", to_string(spec));
  check_quantized("quantize", args.out, rows ? args.x.rows : args.x.cols,
                  spec.stored_cols(rows ? args.x.cols : args.x.rows));
  if (!args.decoded.empty())
    check_shape("quantize", "decoded", args.decoded, args.out.rows, args.out.cols, DType::bf16);
}

void check_operand(std::string_view name, const Operand& x, FormatId planned, int64_t depth) {
  require(x.format() == planned || !x.quantized(), "qgemm: {} is {}, planned for {}", name,
          format(x.format()).name, format(planned).name);
  require(x.depth() == depth, "qgemm: {} has K={}, planned for K={}", name, x.depth(), depth);
  require(x.decoded.empty() || x.quantized(), "qgemm: {} is {} and has decoded values beside it", name,
          format(x.format()).name);
  require(x.prepacked == nullptr || x.quantized(), "qgemm: {} is {} and has a prepacked form beside it", name,
          format(x.format()).name);
  check_optional("qgemm", "decoded", x.decoded, x.rows(), depth, DType::bf16);
}

/// The reference's epilogue multiplies by amaxes, which both operands must hold.
void check_epilogue(const GemmProblem& planned, const GemmArgs& args) {
  require(args.epilogue == planned.epilogue, "qgemm: epilogue {}, planned for {}", to_string(args.epilogue),
          to_string(planned.epilogue));
  if (args.epilogue == Epilogue::minite) return;
  for (const auto& [name, x] : {std::pair{"a", &args.a}, std::pair{"b", &args.b}}) {
    require(x->quantized() && x->q.outer_count() > 0 && x->q.amax != nullptr,
            "qgemm: epilogue te needs outer amaxes, but {} is {}; use nvfp4 with an outer scale, or epilogue "
            "minite",
            name, x->quantized() ? to_string(x->q.spec) : std::string(format(x->format()).name));
  }
  require(args.y.dtype != DType::f64, "qgemm: epilogue te rounds in FP32, but y is f64");
}

}  // namespace

void quantize(const Context& ctx, const QuantizeArgs& args) {
  check_quantize(args);
  ctx.table->quantize(args, ctx.exec());
}

void quantize_both(const Context& ctx, const QuantizeBothArgs& args) {
  check_quantize(args.rows);
  check_quantize(args.columns);
  const TensorView &x = args.rows.x, &y = args.columns.x;
  require(args.rows.along == Orientation::rows && args.columns.along == Orientation::columns,
          "quantize_both: the first goes along rows, the second along columns");
  require(
      x.data == y.data && x.rows == y.rows && x.cols == y.cols && x.stride == y.stride && x.dtype == y.dtype,
      "quantize_both: {} along rows and {} along columns are not the same tensor", shape(x), shape(y));
  ctx.table->quantize_both(args, ctx.exec());
}

void dequantize(const Context& ctx, const DequantizeArgs& args) {
  check_source("dequantize", args.y);
  check_quantized("dequantize", args.q, args.y.rows, args.y.cols);
  ctx.table->dequantize(args, ctx.exec());
}

void transpose_codes(const Context& ctx, const TransposeCodesArgs& args) {
  require(args.q.spec == args.out.spec && args.q.spec.transposable(),
          "transpose_codes: {} to {}; codes can be transposed between equal specs with 2D blocks, one outer "
          "scale, "
          "nearest rounding and no search, others are quantized by columns",
          to_string(args.q.spec), to_string(args.out.spec));
  check_quantized("transpose_codes", args.out, args.q.cols, args.q.rows);
  ctx.table->transpose_codes(args, ctx.exec());
}

void prepack(const Context& ctx, const PrepackArgs& args) {
  const QTensor& q = args.q;
  require(!q.empty() && q.spec.quantized(), "prepack: {} has no codes", to_string(q.spec));
  const int64_t bytes = ctx.table->prepacked_bytes(q.spec, q.rows, q.cols);
  require(static_cast<int64_t>(args.out.size()) == bytes,
          "prepack: {} bytes for {} {}x{}, backend {} takes {}", args.out.size(), to_string(q.spec), q.rows,
          q.cols, ctx.table->name, bytes);
  require(reinterpret_cast<uintptr_t>(args.out.data()) % 16 == 0,
          "prepack: the place starts {} bytes past a multiple of 16",
          reinterpret_cast<uintptr_t>(args.out.data()) % 16);
  if (bytes > 0) ctx.table->prepack(args, ctx.exec());
}

void gemm(const Context& ctx, const GemmPlan& plan, const GemmArgs& args) {
  const GemmProblem& p = plan.problem;
  check_operand("a", args.a, p.a, p.k);
  check_operand("b", args.b, p.b, p.k);
  require(args.b.rows() == p.n, "qgemm: b has {} rows, planned for N={}", args.b.rows(), p.n);
  check_epilogue(p, args);
  check_shape("qgemm", "y", args.y, args.a.rows(), p.n, p.y);
  check_optional("qgemm", "bias", args.bias, 1, p.n, accumulator(p.y));
  check_scratch("qgemm", ctx.scratch, plan.scratch(args.y.rows, ctx.pool->threads()));
  if (args.y.size() == 0) return;
  GemmArgs planned = args;
  planned.order = p.order;
  plan.table->gemm(planned, ctx.exec());
}

}  // namespace minite::ops
