// A router and its experts. Tokens are packed by expert, each expert's rows go through its own gate_up and
// down, and a token's outputs come back weighted and added in slot order.
#include <algorithm>

#include "model/mlp.h"

namespace minite {
namespace {

FormatId stored_as(DType dtype) { return dtype == DType::bf16 ? FormatId::bf16 : FormatId::fp32; }
DType wide(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }

class Experts : public Mlp {
 public:
  explicit Experts(const LayerBuild& build);

  [[nodiscard]] MlpActivations place(Arena& arena, int64_t rows, Keep keep,
                                     const SharedActivations& shared) const override;
  void forward(const Context& ctx, int layer, const Weights& weights, const TensorView& mid,
               MlpActivations& act, const TensorView& out) const override;
  void backward(const Context& ctx, Arena& temp, const Weights& weights, const MlpActivations& act,
                const MlpGradients& grads) const override;
  [[nodiscard]] int64_t backward_bytes(int64_t rows) const override;
  [[nodiscard]] int64_t scratch(int64_t rows, int threads) const override;
  [[nodiscard]] std::vector<std::string> plans() const override;

 private:
  struct Working {
    TensorView dact, dgate_up, packed;  ///< [R,F], [R,2F], [R,D]
    TensorView dweight, dlogits;        ///< [T,k], [T,E] f32 (f64)
  };
  [[nodiscard]] Working take(Arena& arena, int64_t rows) const;
  [[nodiscard]] GemmPlan router_wgrad(int64_t rows) const;
  void route(const Context& ctx, int layer, MlpActivations& a) const;
  void router_backward(const Context& ctx, const Weights& weights, const MlpActivations& a, const Working& w,
                       const MlpGradients& g) const;

  DType compute_;
  float eps_;
  int64_t hidden_, experts_, top_k_, inner_;
  ExpertWeights kind_;
  const OpTable* table_;
  std::string router_name_;
  GemmPlan router_, router_dgrad_;
  GroupedLinear gate_up_, down_;
  LinearWeights router_w_;
  std::vector<LinearWeights> gate_up_w_, down_w_;
  int64_t norm_p_, router_p_, gate_up_p_, down_p_;
};

Experts::Experts(const LayerBuild& b)
    : compute_(b.compute()),
      eps_(b.weights.config().rms_norm_eps),
      hidden_(b.weights.config().hidden_size),
      experts_(b.weights.config().num_experts),
      top_k_(b.weights.config().num_experts_per_tok),
      inner_(b.weights.config().moe_intermediate_size),
      kind_(b.weights.config().norm_topk_prob ? ExpertWeights::renormalized : ExpertWeights::probabilities),
      table_(&b.table),
      router_name_(b.module("router").module.name),
      gate_up_(experts_, b.module("experts.gate_up"), compute_, b.table, b.policy),
      down_(experts_, b.module("experts.down"), compute_, b.table, b.policy),
      router_w_(b.forms("router")),
      gate_up_w_(b.unit_forms("experts.gate_up")),
      down_w_(b.unit_forms("experts.down")),
      norm_p_(b.parameter("mlp_norm")),
      router_p_(b.parameter("router")),
      gate_up_p_(b.parameter("experts.gate_up")),
      down_p_(b.parameter("experts.down")) {
  const ResolvedLinear& router = b.module("router");
  const QLinearParams& p = router.params;
  for (const MatmulSpec* product : {&p.fprop, &p.dgrad, &p.wgrad}) {
    if (!product->a.quantized() && !product->b.quantized()) continue;
    fail(ErrorCode::unsupported, "{}: recipe {} ({}) quantizes the router; give it bf16 or fp32",
         router.module.name, router.recipe, router.reason);
  }
  // exact(KERNEL) names the kernel of the recipe's linear layers; the router is no part of the recipe.
  const Policy policy = b.policy.kind == Policy::Kind::exact ? Policy{} : b.policy;
  const FormatId w = stored_as(router_w_.dense.dtype);
  router_ = plan_gemm(b.table, {stored_as(compute_), w, wide(compute_), experts_, hidden_}, policy,
                      router.module.name);
  router_dgrad_ = plan_gemm(b.table, {FormatId::fp32, w, compute_, hidden_, experts_},
                            Policy{Policy::Kind::fastest, {}}, router.module.name + " dgrad");
}

GemmPlan Experts::router_wgrad(int64_t rows) const {
  return plan_gemm(*table_, {FormatId::fp32, stored_as(compute_), wide(compute_), hidden_, rows},
                   Policy{Policy::Kind::fastest, {}}, router_name_ + " wgrad");
}

MlpActivations Experts::place(Arena& arena, int64_t rows, Keep keep, const SharedActivations& shared) const {
  const bool training = keep == Keep::for_backward;
  const int64_t packed = rows * top_k_;
  const auto codes = [&](const GroupedLinear& linear) {
    const Linear& each = linear.each();
    return each.needs().quantized_x ? arena.take_qtensor(each.params().fprop.a, packed, each.k()) : QTensor{};
  };
  MlpActivations a;
  a.normed = training ? arena.take_tensor(compute_, rows, hidden_) : shared.mlp_normed;
  a.in.rstd = training ? arena.take_tensor(wide(compute_), rows, 1) : TensorView{};
  RouterActivations& r = a.router;
  r.logits = arena.take_tensor(wide(compute_), rows, experts_);
  r.prob = arena.take_tensor(wide(compute_), rows, experts_);
  r.weight = arena.take_tensor(wide(compute_), rows, top_k_);
  r.expert = arena.take_tensor(DType::i32, rows, top_k_);
  r.row_of = arena.take_tensor(DType::i32, rows, top_k_);
  r.slot_of = arena.take_tensor(DType::i32, 1, packed);
  r.offset = arena.take_tensor(DType::i32, 1, experts_ + 1);
  r.packed = shared.packed;  // made again by the backward pass
  a.in.linear.xq = codes(gate_up_);
  a.gate_up = arena.take_tensor(compute_, packed, 2 * inner_);
  a.act = arena.take_tensor(compute_, packed, inner_);
  a.down.xq = codes(down_);
  r.out = arena.take_tensor(compute_, packed, hidden_);
  return a;
}

void Experts::route(const Context& ctx, int layer, MlpActivations& a) const {
  RouterActivations& r = a.router;
  ops::gemm(ctx, router_,
            {Operand::of(a.normed), Operand::of(router_w_.dense), {}, r.logits, Output::overwrite});
  ctx.observe(layer, "router", r.logits);
  const auto expert = RouterActivations::ints(r.expert), row_of = RouterActivations::ints(r.row_of),
             slot_of = RouterActivations::ints(r.slot_of);
  ops::route(ctx, {r.logits, top_k_, kind_, r.prob, expert, r.weight, r.tape.replay, r.tape.live});
  r.tape.record(expert, r.weight);
  ops::dispatch(ctx, {expert, RouterActivations::ints(r.offset), row_of, slot_of});
  if (ctx.probe != nullptr) ctx.probe->experts(layer, {expert, slot_of, top_k_});
  ops::permute(ctx, {a.normed, slot_of, r.packed});
}

void Experts::forward(const Context& ctx, int layer, const Weights& weights, const TensorView& mid,
                      MlpActivations& a, const TensorView& out) const {
  const RouterActivations& r = a.router;
  a.in.x = mid;
  if (ctx.probe != nullptr) ctx.probe->value({layer, "mlp_norm", Point::input}, mid);
  ops::norm(ctx, {mid, weights.parameters()[norm_p_].weight, eps_, 1, a.normed, a.in.rstd});
  ctx.observe(layer, "mlp_norm", a.normed);
  route(ctx, layer, a);
  const Groups groups = r.groups();
  gate_up_.forward(ctx, r.packed, groups, gate_up_w_, a.gate_up, a.in.linear);
  if (down_.each().needs().quantized_x) {
    ops::swiglu_quantize(ctx, {{a.gate_up, a.act}, a.down.xq});
    down_.forward_prequantized(ctx, a.act, groups, down_w_, r.out, a.down);
  } else {
    ops::swiglu(ctx, {a.gate_up, a.act});
    down_.forward(ctx, a.act, groups, down_w_, r.out, a.down);
  }
  ctx.observe(layer, "experts.act", a.act);
  ops::combine(ctx, {r.out, RouterActivations::ints(r.row_of), r.weight, out});
  ctx.observe(layer, "combine", out);
}

void Experts::router_backward(const Context& ctx, const Weights& weights, const MlpActivations& a,
                              const Working& w, const MlpGradients& g) const {
  const RouterActivations& r = a.router;
  ops::route_backward(ctx, {r.prob, RouterActivations::ints(r.expert), r.weight, w.dweight, kind_,
                            g.router_balance, r.groups(), w.dlogits});
  ops::gemm(ctx, router_wgrad(g.dout.rows),
            {Operand::of(w.dlogits, Orientation::columns),
             Operand::of(a.normed, Orientation::columns),
             {},
             weights.parameters()[router_p_].grad,
             Output::accumulate});
  ops::gemm(ctx, router_dgrad_,
            {Operand::of(w.dlogits),
             Operand::of(router_w_.dense, Orientation::columns),
             {},
             g.dnormed,
             Output::accumulate});
}

void Experts::backward(const Context& ctx, Arena& temp, const Weights& weights, const MlpActivations& a,
                       const MlpGradients& g) const {
  const int64_t mark = temp.mark();
  const Working w = take(temp, g.dout.rows);
  const auto& p = weights.parameters();
  const RouterActivations& r = a.router;
  const auto row_of = RouterActivations::ints(r.row_of), slot_of = RouterActivations::ints(r.slot_of);
  const Groups groups = r.groups();
  // The experts' outputs make room for their gradients, later for those of the experts' inputs.
  const TensorView& packed_grad = r.out;
  ops::combine_backward(ctx, {g.dout, r.out, slot_of, r.weight, packed_grad, w.dweight});
  down_.backward(ctx, temp, packed_grad, groups, a.down, down_w_, w.dact, p[down_p_].grad);
  ops::swiglu_backward(ctx, {w.dact, a.gate_up, w.dgate_up});
  LinearSaved saved = a.in.linear;
  if (gate_up_.each().needs().saved_x) {
    ops::permute(ctx, {a.normed, slot_of, w.packed});
    saved.x = w.packed;
  }
  gate_up_.backward(ctx, temp, w.dgate_up, groups, saved, gate_up_w_, packed_grad, p[gate_up_p_].grad);
  ops::combine(ctx, {packed_grad, row_of, {}, g.dnormed});
  router_backward(ctx, weights, a, w, g);
  ops::norm_backward(ctx,
                     {g.dnormed, a.in.x, p[norm_p_].weight, a.in.rstd, 1, g.dout, g.dmid, p[norm_p_].grad});
  temp.rewind(mark);
}

Experts::Working Experts::take(Arena& arena, int64_t rows) const {
  const int64_t packed = rows * top_k_;
  return {arena.take_tensor(compute_, packed, inner_), arena.take_tensor(compute_, packed, 2 * inner_),
          arena.take_tensor(compute_, packed, hidden_), arena.take_tensor(wide(compute_), rows, top_k_),
          arena.take_tensor(wide(compute_), rows, experts_)};
}

int64_t Experts::backward_bytes(int64_t rows) const {
  Arena measure;
  (void)take(measure, rows);
  return measure.peak() +
         std::max(gate_up_.backward_bytes(rows * top_k_), down_.backward_bytes(rows * top_k_));
}

int64_t Experts::scratch(int64_t rows, int threads) const {
  return std::max({router_.scratch(rows, threads), router_dgrad_.scratch(rows, threads),
                   router_wgrad(rows).scratch(experts_, threads), gate_up_.scratch(rows * top_k_, threads),
                   down_.scratch(rows * top_k_, threads)});
}

std::vector<std::string> Experts::plans() const {
  std::vector<std::string> all = {router_name_ + " fprop: " + to_string(router_),
                                  router_name_ + " dgrad: " + to_string(router_dgrad_)};
  for (const GroupedLinear* linear : {&gate_up_, &down_}) {
    for (std::string& line : linear->each().plans()) all.push_back(std::move(line));
  }
  return all;
}

}  // namespace

std::unique_ptr<const Mlp> make_experts(const LayerBuild& build) { return std::make_unique<Experts>(build); }

}  // namespace minite
