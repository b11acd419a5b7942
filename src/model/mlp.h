#pragma once
// The second half of a block, after attention: one gated MLP, or a router and its experts. Which one is
// decided when the model is built.
//
// Legend: T tokens, D hidden size, F intermediate size, E experts, k experts a token, R rows of the MLP: T,
// or T k rows packed by expert.
#include <memory>

#include "model/layer_build.h"
#include "model/route_tape.h"
#include "modules/grouped_linear.h"

namespace minite {

/// Whether a forward pass keeps what the backward pass needs.
enum class Keep : uint8_t { nothing, for_backward };

/// Outputs that no backward pass reads; all layers share them.
struct SharedActivations {
  TensorView attn_normed, mlp_normed;  ///< [T,D]
  TensorView packed;                   ///< [T k,D] inputs of the experts; empty without experts
};

/// Where each token went; of a mixture of experts only.
struct RouterActivations {
  TensorView logits, prob;             ///< [T,E] f32 (f64)
  TensorView weight;                   ///< [T,k] f32 (f64)
  TensorView expert, row_of, slot_of;  ///< [T,k], [T,k], [1,T k] i32
  TensorView offset;                   ///< [1,E+1] i32
  TensorView packed, out;              ///< [R,D] inputs and outputs of the experts
  RouteTape tape;                      ///< of this layer: router replay

  [[nodiscard]] static std::span<int32_t> ints(const TensorView& t) {
    return {t.as<int32_t>(), static_cast<size_t>(t.size())};
  }
  [[nodiscard]] Groups groups() const { return {ints(offset)}; }
};

/// What the MLP of one layer produces. The backward pass uses `router.out` up.
struct MlpActivations {
  LayerNormLinear::Saved in;  ///< norm + gate_up
  TensorView normed;          ///< [T,D]
  TensorView gate_up;         ///< [R,2F]
  TensorView act;             ///< [R,F]
  LinearSaved down;
  RouterActivations router;
};

/// Gradients that enter and leave the MLP.
struct MlpGradients {
  TensorView dout;           ///< [T,D] of the block's output, and of the residual that goes around the MLP
  TensorView dnormed;        ///< [T,D] working memory
  TensorView dmid;           ///< [T,D] out: of the MLP's input, residual included
  float router_balance = 0;  ///< d loss / d router_balance() of this layer
};

class Mlp {
 public:
  virtual ~Mlp() = default;
  /// Lays out activations for `rows` tokens.
  [[nodiscard]] virtual MlpActivations place(Arena& arena, int64_t rows, Keep keep,
                                             const SharedActivations& shared) const = 0;
  /// out = mlp(norm(mid)), without the residual. `layer` is for the probe.
  virtual void forward(const Context& ctx, int layer, const Weights& weights, const TensorView& mid,
                       MlpActivations& act, const TensorView& out) const = 0;
  /// Parameter gradients accumulate. `temp` gives backward_bytes(T), returned before the call ends.
  virtual void backward(const Context& ctx, Arena& temp, const Weights& weights, const MlpActivations& act,
                        const MlpGradients& grads) const = 0;
  [[nodiscard]] virtual int64_t backward_bytes(int64_t rows) const = 0;
  [[nodiscard]] virtual int64_t scratch(int64_t rows, int threads) const = 0;
  [[nodiscard]] virtual std::vector<std::string> plans() const = 0;
};

/// gate_up, SwiGLU, down.
[[nodiscard]] std::unique_ptr<const Mlp> make_gated_mlp(const LayerBuild& build);
/// Router, then the same by expert. Throws unsupported when a rule quantizes the router.
[[nodiscard]] std::unique_ptr<const Mlp> make_experts(const LayerBuild& build);

}  // namespace minite
