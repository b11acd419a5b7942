#include "model/mlp.h"

#include <algorithm>

namespace minite {
namespace {

class GatedMlp : public Mlp {
 public:
  explicit GatedMlp(const LayerBuild& build)
      : compute_(build.compute()),
        eps_(build.weights.config().rms_norm_eps),
        gate_up_(build.norm_linear("gate_up", "mlp_norm")),
        down_(build.linear("down")),
        gate_up_w_(build.forms("gate_up")),
        down_w_(build.forms("down")),
        norm_p_(build.parameter("mlp_norm")),
        gate_up_p_(build.parameter("gate_up")),
        down_p_(build.parameter("down")) {}

  [[nodiscard]] MlpActivations place(Arena& arena, int64_t rows, Keep keep,
                                     const SharedActivations& shared) const override {
    const bool training = keep == Keep::for_backward;
    const DType wide = compute_ == DType::f64 ? DType::f64 : DType::f32;
    const Linear& gate_up = gate_up_.linear();
    const auto codes = [&](const Linear& linear) {
      return linear.needs().quantized_x ? arena.take_qtensor(linear.params().fprop.a, rows, linear.k())
                                        : QTensor{};
    };
    MlpActivations a;
    a.normed = training && gate_up.needs().saved_x ? arena.take_tensor(compute_, rows, gate_up.k())
                                                   : shared.mlp_normed;
    a.in.rstd = training ? arena.take_tensor(wide, rows, 1) : TensorView{};
    a.in.linear.xq = codes(gate_up);
    a.gate_up = arena.take_tensor(compute_, rows, gate_up.n());
    a.act = arena.take_tensor(compute_, rows, down_.k());
    a.down.xq = codes(down_);
    return a;
  }

  void forward(const Context& ctx, int layer, const Weights& weights, const TensorView& mid,
               MlpActivations& a, const TensorView& out) const override {
    gate_up_.forward(ctx, mid, weights.parameters()[norm_p_].weight, eps_, gate_up_w_, a.normed, a.gate_up,
                     a.in);
    if (down_.needs().quantized_x) {
      ops::swiglu_quantize(ctx, {{a.gate_up, a.act}, a.down.xq});
      down_.forward_prequantized(ctx, a.act, down_w_, out, a.down);
    } else {
      ops::swiglu(ctx, {a.gate_up, a.act});
      down_.forward(ctx, a.act, down_w_, out, a.down);
    }
    ctx.observe(layer, "act", a.act);
  }

  void backward(const Context& ctx, Arena& temp, const Weights& weights, const MlpActivations& a,
                const MlpGradients& g) const override {
    const int64_t mark = temp.mark();
    const auto [dact, dgate_up] = take(temp, g.dout.rows);
    const auto& p = weights.parameters();
    down_.backward(ctx, temp, g.dout, a.down, down_w_, dact, p[down_p_].grad);
    ops::swiglu_backward(ctx, {dact, a.gate_up, dgate_up});
    gate_up_.backward(ctx, temp, dgate_up, a.in, p[norm_p_].weight, gate_up_w_, g.dnormed, g.dout, g.dmid,
                      p[gate_up_p_].grad, p[norm_p_].grad);
    temp.rewind(mark);
  }

  [[nodiscard]] int64_t backward_bytes(int64_t rows) const override {
    Arena measure;
    (void)take(measure, rows);
    return measure.peak() + std::max(gate_up_.linear().backward_bytes(rows), down_.backward_bytes(rows));
  }
  [[nodiscard]] int64_t scratch(int64_t rows, int threads) const override {
    return std::max(gate_up_.linear().scratch(rows, threads), down_.scratch(rows, threads));
  }
  [[nodiscard]] std::vector<std::string> plans() const override {
    std::vector<std::string> all = gate_up_.linear().plans();
    for (std::string& line : down_.plans()) all.push_back(std::move(line));
    return all;
  }

 private:
  struct Working {
    TensorView dact, dgate_up;
  };
  [[nodiscard]] Working take(Arena& arena, int64_t rows) const {
    return {arena.take_tensor(compute_, rows, down_.k()),
            arena.take_tensor(compute_, rows, gate_up_.linear().n())};
  }

  DType compute_;
  float eps_;
  LayerNormLinear gate_up_;
  Linear down_;
  LinearWeights gate_up_w_, down_w_;
  int64_t norm_p_, gate_up_p_, down_p_;
};

}  // namespace

std::unique_ptr<const Mlp> make_gated_mlp(const LayerBuild& build) {
  return std::make_unique<GatedMlp>(build);
}

}  // namespace minite
