// Norm, rope, attention, activations, residual: arguments checked, then run.
#include <algorithm>

#include "ops/check.h"
#include "ops/ops.h"

namespace minite::ops {
namespace {

void check_norm(std::string_view op, const NormArgs& args) {
  const TensorView& x = args.x;
  require(args.groups > 0 && x.cols % args.groups == 0, "{}: {} columns do not split into {} groups", op,
          x.cols, args.groups);
  check_shape(op, "weight", args.weight, 1, x.cols / args.groups, x.dtype);
  check_shape(op, "y", args.y, x.rows, x.cols, x.dtype);
  check_optional(op, "rstd", args.rstd, x.rows, args.groups, accumulator(x.dtype));
  require(args.spec.kind == NormKind::layernorm || (args.bias.empty() && args.mean.empty()),
          "{}: RMSNorm has no bias and no mean", op);
  check_optional(op, "bias", args.bias, 1, x.cols / args.groups, x.dtype);
  check_optional(op, "mean", args.mean, x.rows, args.groups, accumulator(x.dtype));
}

void check_kv(std::string_view op, const KvStore& kv, int64_t heads) {
  require(kv.kv_heads > 0 && heads % kv.kv_heads == 0, "{}: {} heads do not share {} key/value heads evenly",
          op, heads, kv.kv_heads);
  require(kv.head_dim > 0 && kv.head_dim <= 256, "{}: head_dim={} must be in [1, 256]", op, kv.head_dim);
  const bool good = is_kv_scale(kv.scale.k) && is_kv_scale(kv.scale.v);
  require(kv_format(kv.format).scaled ? good : kv.scale == KvScale{},
          "{}: k_scale={} and v_scale={} do not fit keys and values in {}", op, kv.scale.k, kv.scale.v,
          kv_format(kv.format).name);
}

void check_add(std::string_view op, const AddArgs& args) {
  check_shape(op, "a", args.a, args.y.rows, args.y.cols, args.y.dtype);
  check_shape(op, "b", args.b, args.y.rows, args.y.cols, args.y.dtype);
}

int64_t max_keys(std::span<const int32_t> pos) {
  return pos.empty() ? 0 : int64_t{*std::max_element(pos.begin(), pos.end())} + 1;
}

}  // namespace

void norm(const Context& ctx, const NormArgs& args) {
  check_norm("norm", args);
  ctx.table->norm(args, ctx.exec());
}

void norm_backward(const Context& ctx, const NormBackwardArgs& args) {
  const TensorView& x = args.x;
  check_norm("norm_backward", {x, args.weight, 0, args.groups, args.dx, args.rstd, args.spec, {}, args.mean});
  check_shape("norm_backward", "dy", args.dy, x.rows, x.cols, x.dtype);
  check_optional("norm_backward", "residual", args.residual, x.rows, x.cols, x.dtype);
  check_shape("norm_backward", "rstd", args.rstd, x.rows, args.groups, accumulator(x.dtype));
  check_shape("norm_backward", "dweight", args.dweight, 1, x.cols / args.groups, accumulator(x.dtype));
  const bool layernorm = args.spec.kind == NormKind::layernorm;
  require(layernorm ? !args.mean.empty() : args.dbias.empty(),
          "norm_backward: LayerNorm needs the mean; RMSNorm has no bias");
  check_optional("norm_backward", "dbias", args.dbias, 1, x.cols / args.groups, accumulator(x.dtype));
  ctx.table->norm_backward(args, ctx.exec());
}

void norm_quantize(const Context& ctx, const NormQuantizeArgs& args) {
  check_norm("norm_quantize", args.norm);
  check_codes("norm_quantize", args.out, args.norm.x);
  ctx.table->norm_quantize(args, ctx.exec());
}

void rope(const Context& ctx, const RopeArgs& args) {
  require(args.heads > 0 && args.x.cols % (2 * args.heads) == 0,
          "rope: {} columns are not {} heads of even size", args.x.cols, args.heads);
  require(args.table.cols == args.x.cols / args.heads, "rope: table has {} columns, expected head_dim={}",
          args.table.cols, args.x.cols / args.heads);
  check_count("rope", "pos", args.pos.size(), args.x.rows);
  check_ids("rope", "pos", args.pos, args.table.rows);
  ctx.table->rope(args, ctx.exec());
}

void kv_write(const Context& ctx, const KvWriteArgs& args) {
  check_kv("kv_write", args.kv, args.kv.kv_heads);
  const int64_t cols = args.kv.kv_heads * args.kv.head_dim;
  check_shape("kv_write", "k", args.k, args.k.rows, cols, args.kv.dtype);
  check_shape("kv_write", "v", args.v, args.k.rows, cols, args.kv.dtype);
  check_count("kv_write", "seq", args.seq.size(), args.k.rows);
  check_count("kv_write", "pos", args.pos.size(), args.k.rows);
  check_ids("kv_write", "seq", args.seq, static_cast<int64_t>(args.kv.first_block.size()));
  ctx.table->kv_write(args, ctx.exec());
}

void attention(const Context& ctx, const AttentionArgs& args) {
  check_kv("attention", args.kv, args.heads);
  const int64_t t = args.q.rows, cols = args.heads * args.kv.head_dim;
  check_shape("attention", "q", args.q, t, cols, args.kv.dtype);
  check_shape("attention", "o", args.o, t, cols, args.kv.dtype);
  check_optional("attention", "lse", args.lse, t, args.heads, accumulator(args.q.dtype));
  check_count("attention", "seq", args.seq.size(), t);
  check_count("attention", "pos", args.pos.size(), t);
  check_ids("attention", "seq", args.seq, static_cast<int64_t>(args.kv.first_block.size()));
  check_scratch("attention", ctx.scratch,
                ctx.table->attention_scratch(max_keys(args.pos), args.kv.head_dim, ctx.pool->threads()));
  ctx.table->attention(args, ctx.exec());
}

void attention_backward(const Context& ctx, const AttentionBackwardArgs& args) {
  check_kv("attention_backward", args.kv, args.heads);
  const int64_t t = args.q.rows, cols = args.heads * args.kv.head_dim,
                kv_cols = args.kv.kv_heads * args.kv.head_dim;
  check_shape("attention_backward", "q", args.q, t, cols, args.kv.dtype);
  check_shape("attention_backward", "dout", args.dout, t, cols, args.kv.dtype);
  check_shape("attention_backward", "o", args.o, t, cols, args.kv.dtype);
  check_shape("attention_backward", "dq", args.dq, t, cols, args.kv.dtype);
  check_shape("attention_backward", "dk", args.dk, t, kv_cols, args.kv.dtype);
  check_shape("attention_backward", "dv", args.dv, t, kv_cols, args.kv.dtype);
  check_shape("attention_backward", "lse", args.lse, t, args.heads, accumulator(args.q.dtype));
  check_count("attention_backward", "seq", args.seq.size(), t);
  check_count("attention_backward", "pos", args.pos.size(), t);
  check_scratch("attention_backward", ctx.scratch,
                ctx.table->attention_scratch(max_keys(args.pos), args.kv.head_dim, ctx.pool->threads()));
  ctx.table->attention_backward(args, ctx.exec());
}

void swiglu(const Context& ctx, const SwigluArgs& args) {
  check_shape("swiglu", "x", args.x, args.y.rows, 2 * args.y.cols, args.y.dtype);
  ctx.table->swiglu(args, ctx.exec());
}

void swiglu_backward(const Context& ctx, const SwigluBackwardArgs& args) {
  check_shape("swiglu_backward", "x", args.x, args.dy.rows, 2 * args.dy.cols, args.dy.dtype);
  check_shape("swiglu_backward", "dx", args.dx, args.dy.rows, 2 * args.dy.cols, args.dy.dtype);
  ctx.table->swiglu_backward(args, ctx.exec());
}

void swiglu_quantize(const Context& ctx, const SwigluQuantizeArgs& args) {
  check_shape("swiglu_quantize", "x", args.act.x, args.act.y.rows, 2 * args.act.y.cols, args.act.y.dtype);
  check_codes("swiglu_quantize", args.out, args.act.y);
  ctx.table->swiglu_quantize(args, ctx.exec());
}

void add(const Context& ctx, const AddArgs& args) {
  check_add("add", args);
  ctx.table->add(args, ctx.exec());
}

void add_norm_quantize(const Context& ctx, const AddNormQuantizeArgs& args) {
  check_add("add_norm_quantize", args.add);
  check_norm("add_norm_quantize", args.norm);
  require(args.norm.x.data == args.add.y.data && args.norm.x.rows == args.add.y.rows &&
              args.norm.x.cols == args.add.y.cols && args.norm.x.stride == args.add.y.stride,
          "add_norm_quantize: the norm reads {}, expected the sum, {}", shape(args.norm.x),
          shape(args.add.y));
  check_codes("add_norm_quantize", args.out, args.norm.y);
  ctx.table->add_norm_quantize(args, ctx.exec());
}

void bias_backward(const Context& ctx, const BiasBackwardArgs& args) {
  check_shape("bias_backward", "dbias", args.dbias, 1, args.dy.cols, accumulator(args.dy.dtype));
  ctx.table->bias_backward(args, ctx.exec());
}

}  // namespace minite::ops
