#include "model/block.h"

namespace minite {
namespace {

/// q, k, v parts of a fused [T, Q+2KV] tensor.
struct QkvParts {
  TensorView q, k, v;
  QkvParts(const TensorView& qkv, const ModelConfig& c)
      : q(qkv.slice_cols(0, c.q_size())),
        k(qkv.slice_cols(c.q_size(), c.kv_size())),
        v(qkv.slice_cols(c.q_size() + c.kv_size(), c.kv_size())) {}
};

TensorView weight(const BlockInput& in, int64_t parameter) {
  return in.weights.parameters()[parameter].weight;
}
TensorView gradient(const BlockInput& in, int64_t parameter) {
  return in.weights.parameters()[parameter].grad;
}

void attention_forward(const Context& ctx, const BlockInput& in, LayerActivations& act) {
  const ModelConfig& c = in.weights.config();
  const QkvParts raw(act.qkv, c);
  if (in.layer.has_qk_norm()) {
    ops::norm(ctx,
              {raw.q, weight(in, in.layer.q_norm), c.rms_norm_eps, c.num_attention_heads, act.q, act.q_rstd});
    ops::norm(ctx,
              {raw.k, weight(in, in.layer.k_norm), c.rms_norm_eps, c.num_key_value_heads, act.k, act.k_rstd});
  }
  ops::rope(ctx, {act.q, in.rope_table, in.rows.pos, c.num_attention_heads, Direction::forward});
  ops::rope(ctx, {act.k, in.rope_table, in.rows.pos, c.num_key_value_heads, Direction::forward});
  ops::kv_write(ctx, {act.k, raw.v, in.rows.seq, in.rows.pos, act.kv});
  ops::attention(ctx, {act.q, in.rows.seq, in.rows.pos, act.kv, c.num_attention_heads, act.o, act.lse});
}

}  // namespace

void block_forward(const Context& ctx, const BlockInput& in, LayerActivations& act) {
  const Layer& layer = in.layer;
  layer.qkv.forward(ctx, act.x, weight(in, layer.attn_norm), in.weights.config().rms_norm_eps, layer.qkv_w,
                    act.attn_normed, act.qkv, act.attn);
  attention_forward(ctx, in, act);
  ctx.observe(in.index, "attn", act.o);
  layer.o.forward(ctx, act.o, layer.o_w, act.mid, act.o_linear);
  ops::add(ctx, {act.x, act.mid, act.mid});

  layer.mlp->forward(ctx, in.index, in.weights, act.mid, act.mlp, act.out);
  ops::add(ctx, {act.mid, act.out, act.out});
}

BlockGradients BlockGradients::place(Arena& arena, const ModelConfig& c, DType compute, int64_t rows) {
  BlockGradients g;
  g.dnormed = arena.take_tensor(compute, rows, c.hidden_size);
  g.dmid = arena.take_tensor(compute, rows, c.hidden_size);
  g.do_ = arena.take_tensor(compute, rows, c.q_size());
  g.dq = arena.take_tensor(compute, rows, c.q_size());
  g.dk = arena.take_tensor(compute, rows, c.kv_size());
  g.dqkv = arena.take_tensor(compute, rows, c.qkv_size());
  return g;
}

namespace {

/// do [T,Q] -> dqkv [T,Q+2KV], through attention, rope and QK-norm.
void attention_backward(const Context& ctx, const BlockInput& in, const LayerActivations& act,
                        BlockGradients g) {
  const ModelConfig& c = in.weights.config();
  const QkvParts raw(act.qkv, c), d(g.dqkv, c);
  if (!in.layer.has_qk_norm()) {
    g.dq = d.q;
    g.dk = d.k;
  }
  ops::attention_backward(ctx, {g.do_, act.q, act.o, act.lse, in.rows.seq, in.rows.pos, act.kv,
                                c.num_attention_heads, g.dq, g.dk, d.v});
  ops::rope(ctx, {g.dq, in.rope_table, in.rows.pos, c.num_attention_heads, Direction::backward});
  ops::rope(ctx, {g.dk, in.rope_table, in.rows.pos, c.num_key_value_heads, Direction::backward});
  if (!in.layer.has_qk_norm()) return;
  ops::norm_backward(ctx, {g.dq,
                           raw.q,
                           weight(in, in.layer.q_norm),
                           act.q_rstd,
                           c.num_attention_heads,
                           {},
                           d.q,
                           gradient(in, in.layer.q_norm)});
  ops::norm_backward(ctx, {g.dk,
                           raw.k,
                           weight(in, in.layer.k_norm),
                           act.k_rstd,
                           c.num_key_value_heads,
                           {},
                           d.k,
                           gradient(in, in.layer.k_norm)});
}

}  // namespace

void block_backward(const Context& ctx, const BlockInput& in, const LayerActivations& act,
                    const TensorView& dout, Arena& temp, const BlockGradients& g, const TensorView& dx) {
  const Layer& layer = in.layer;
  layer.mlp->backward(ctx, temp, in.weights, act.mlp, {dout, g.dnormed, g.dmid, in.router_balance});
  layer.o.backward(ctx, temp, g.dmid, act.o_linear, layer.o_w, g.do_, gradient(in, layer.o_p));
  attention_backward(ctx, in, act, g);
  layer.qkv.backward(ctx, temp, g.dqkv, act.attn, weight(in, layer.attn_norm), layer.qkv_w, g.dnormed, g.dmid,
                     dx, gradient(in, layer.qkv_p), gradient(in, layer.attn_norm));
}

}  // namespace minite
