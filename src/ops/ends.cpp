// The two ends of the model and the optimizer: arguments checked, then run.
#include "ops/check.h"
#include "ops/ops.h"

namespace minite::ops {

void embedding(const Context& ctx, const EmbeddingArgs& args) {
  check_count("embedding", "token", args.token.size(), args.y.rows);
  check_ids("embedding", "token", args.token, args.table.rows);
  check_shape("embedding", "y", args.y, args.y.rows, args.table.cols, args.table.dtype);
  ctx.table->embedding(args, ctx.exec());
}

void embedding_backward(const Context& ctx, const EmbeddingBackwardArgs& args) {
  check_count("embedding_backward", "token", args.token.size(), args.dy.rows);
  check_ids("embedding_backward", "token", args.token, args.dtable.rows);
  check_shape("embedding_backward", "dtable", args.dtable, args.dtable.rows, args.dy.cols,
              accumulator(args.dy.dtype));
  ctx.table->embedding_backward(args, ctx.exec());
}

void logprob(const Context& ctx, const LogprobArgs& args) {
  const int64_t t = args.logits.rows;
  const DType dtype = accumulator(args.logits.dtype);
  require(args.temperature > 0.0f, "logprob: temperature={} must be above 0", args.temperature);
  check_count("logprob", "target", args.target.size(), t);
  check_ids("logprob", "target", args.target, args.logits.cols);
  check_shape("logprob", "logp", args.logp, 1, t, dtype);
  check_optional("logprob", "entropy", args.entropy, 1, t, dtype);
  check_optional("logprob", "lse", args.lse, 1, t, dtype);
  ctx.table->logprob(args, ctx.exec());
}

void logprob_backward(const Context& ctx, const LogprobBackwardArgs& args) {
  const int64_t t = args.logits.rows;
  const DType dtype = accumulator(args.logits.dtype);
  check_count("logprob_backward", "target", args.target.size(), t);
  check_ids("logprob_backward", "target", args.target, args.logits.cols);
  check_shape("logprob_backward", "dlogits", args.dlogits, t, args.logits.cols, args.dlogits.dtype);
  check_shape("logprob_backward", "dlogp", args.dlogp, 1, t, dtype);
  check_shape("logprob_backward", "lse", args.lse, 1, t, dtype);
  if (!args.dentropy.empty()) check_shape("logprob_backward", "entropy", args.entropy, 1, t, dtype);
  ctx.table->logprob_backward(args, ctx.exec());
}

void choose(const Context& ctx, const ChooseArgs& args) {
  const int64_t t = args.logits.rows;
  check_shape("choose", "logits", args.logits, t, args.logits.cols, DType::f32);
  require(args.temperature >= 0.0f, "choose: temperature={} must not be negative", args.temperature);
  require(args.top_p > 0.0f && args.top_p <= 1.0f, "choose: top_p={} must be in (0, 1]", args.top_p);
  require(args.top_k >= 0, "choose: top_k={} must not be negative; 0 keeps all", args.top_k);
  check_count("choose", "request", args.request.size(), t);
  check_count("choose", "pos", args.pos.size(), t);
  check_count("choose", "token", args.token.size(), t);
  check_scratch("choose", ctx.scratch, ctx.table->choose_scratch(args.logits.cols, ctx.pool->threads()));
  ctx.table->choose(args, ctx.exec());
}

void adamw(const Context& ctx, const AdamWArgs& args) {
  const int64_t rows = args.master.rows, cols = args.master.cols;
  check_shape("adamw", "m", args.m, rows, cols, DType::f32);
  check_shape("adamw", "v", args.v, rows, cols, DType::f32);
  check_shape("adamw", "grad", args.grad, rows, cols, DType::f32);
  check_shape("adamw", "weight", args.weight, rows, cols, args.weight.dtype);
  require(args.step >= 1, "adamw: step={} is 1-based", args.step);
  ctx.table->adamw(args, ctx.exec());
}

double sum_squares(const Context& ctx, const TensorView& x) {
  double out = 0;
  ctx.table->sum_squares({x, &out}, ctx.exec());
  return out;
}

}  // namespace minite::ops
