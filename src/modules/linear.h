#pragma once
// Linear and LayerNormLinear: forward and backward pairs with named saved state. They receive numerics
// (QLinearParams) and plans as values and never see a recipe name.
//
// Shapes: x [T,K], w [N,K], y [T,N] in the compute dtype; main gradients dw [N,K] in FP32, accumulated.
#include <string>
#include <vector>

#include "core/memory.h"
#include "minite/recipe.h"
#include "ops/ops.h"

namespace minite {

/// The forms of one weight that the products read. All are made from the same weight version.
struct LinearWeights {
  TensorView dense;        ///< [N,K] compute dtype, or the FP32 master for an fp32 operand
  QTensor fprop;           ///< w quantized along K; empty when fprop reads `dense`
  QTensor dgrad;           ///< w^T [K,N] quantized along N; empty when dgrad reads a dense w
  TensorView dequantized;  ///< [N,K] decoded fprop codes, for OperandSource::dequantized
  TensorView bias;         ///< [1,N] f32 (f64 for f64), or absent
};

/// What the backward pass needs of the input.
struct LinearSaved {
  TensorView x;  ///< [T,K] high precision; absent when the recipe reads the decoded codes
  QTensor xq;    ///< codes of the forward pass; empty when fprop is not quantized
};

/// Which saved parts a linear layer needs, and which weight forms.
struct LinearNeeds {
  bool quantized_x, quantized_w, saved_x, dgrad_codes, dequantized_w;
  explicit LinearNeeds(const QLinearParams& params);
};

/// The products of a linear layer.
enum class LinearPass : uint8_t { fprop, dgrad, wgrad };

/// Random bits of stochastic rounding of dy in a backward product of the module `name`, apart from those of
/// every other module.
[[nodiscard]] Noise linear_noise(const std::string& name, LinearPass pass, uint64_t seed);

class Linear {
 public:
  /// Plans the three products. `compute` is the dtype of activations. Throws when the backend cannot run one
  /// or the policy cannot be kept; messages name the module.
  Linear(const ResolvedLinear& resolved, DType compute, const OpTable& table, const Policy& policy);

  /// Quantizes x when the recipe says so (into saved.xq) and computes y. `saved.xq` must be placed when
  /// LinearNeeds::quantized_x; `saved.x` is set to x.
  void forward(const Context& ctx, const TensorView& x, const LinearWeights& w, const TensorView& y,
               LinearSaved& saved) const;
  /// The same when saved.xq already holds the codes of x (a fused producer wrote them).
  void forward_prequantized(const Context& ctx, const TensorView& x, const LinearWeights& w,
                            const TensorView& y, LinearSaved& saved) const;
  /// dx = dy w, dw += dy^T x, and with a bias dbias += column sums of dy. `temp` gives working memory of
  /// backward_bytes(T), returned before the call ends.
  void backward(const Context& ctx, Arena& temp, const TensorView& dy, const LinearSaved& saved,
                const LinearWeights& w, const TensorView& dx, const TensorView& dw,
                const TensorView& dbias = {}) const;

  [[nodiscard]] int64_t backward_bytes(int64_t rows) const;
  /// Scratch that the three plans need for `rows` tokens.
  [[nodiscard]] int64_t scratch(int64_t rows, int threads) const;

  [[nodiscard]] const ResolvedLinear& resolved() const { return resolved_; }
  [[nodiscard]] const QLinearParams& params() const { return resolved_.params; }
  [[nodiscard]] const LinearNeeds& needs() const { return needs_; }
  [[nodiscard]] const GemmPlan& fprop_plan() const { return fprop_; }
  [[nodiscard]] const GemmPlan& dgrad_plan() const { return dgrad_; }
  [[nodiscard]] GemmPlan wgrad_plan(int64_t rows) const;
  /// Where a probe is told that this layer stands.
  [[nodiscard]] Tap tap(Point point, int64_t expert = -1) const;
  /// Shows a forward pass to the probe, if one listens: input and weight as they were read, and the output.
  void observe_forward(const Context& ctx, const LinearSaved& saved, std::span<const LinearWeights> w,
                       const TensorView& y) const;
  /// Shows one gradient, or its codes, to the probe, if one listens.
  void observe_gradient(const Context& ctx, Point point, const TensorView& value) const {
    if (ctx.probe != nullptr) ctx.probe->value(tap(point), value);
  }
  void observe_gradient(const Context& ctx, Point point, const QTensor& codes) const {
    if (ctx.probe != nullptr) ctx.probe->codes(tap(point), codes);
  }
  /// Shows codes that a backward product makes of `value` by columns.
  void observe_columns(const Context& ctx, Point point, const TensorView& value, const QTensor& codes,
                       int64_t expert = -1) const {
    if (ctx.probe != nullptr) ctx.probe->columns(tap(point, expert), value, codes);
  }
  [[nodiscard]] Noise noise(const Context& ctx, LinearPass pass) const {
    return linear_noise(resolved_.module.name, pass, ctx.noise);
  }
  [[nodiscard]] int64_t n() const { return resolved_.module.n; }
  [[nodiscard]] int64_t k() const { return resolved_.module.k; }
  /// The forward and dgrad plans in words; wgrad depends on the rows and is planned on the same backend.
  [[nodiscard]] std::vector<std::string> plans() const;

 private:
  void dgrad(const Context& ctx, Arena& temp, const TensorView& dy, const LinearWeights& w,
             const TensorView& dx) const;
  void wgrad(const Context& ctx, Arena& temp, const TensorView& dy, const LinearSaved& saved,
             const TensorView& dw) const;

  ResolvedLinear resolved_;
  LinearNeeds needs_;
  DType compute_;
  const OpTable* table_;
  GemmPlan fprop_, dgrad_;
};

/// The learned part of a norm, or its gradient.
struct NormParams {
  TensorView weight;  ///< [1,K]
  TensorView bias;    ///< [1,K], or absent; LayerNorm only

  NormParams(const TensorView& w, const TensorView& b = {}) : weight(w), bias(b) {}
};

/// A norm followed by Linear; the norm's output goes straight to codes when the recipe quantizes x.
class LayerNormLinear {
 public:
  /// `norm_name` is what probes call the norm.
  LayerNormLinear(const ResolvedLinear& resolved, DType compute, const OpTable& table, const Policy& policy,
                  const NormSpec& norm = {}, std::string norm_name = "norm")
      : linear_(resolved, compute, table, policy), norm_(norm), norm_name_(std::move(norm_name)) {}

  struct Saved {
    TensorView x;     ///< [T,K] input of the norm
    TensorView rstd;  ///< [T,1]
    LinearSaved linear;
    TensorView mean;  ///< [T,1]; LayerNorm only
  };
  /// `normed` [T,K] receives the norm's output. saved.rstd, saved.mean and saved.linear.xq are placed by the
  /// caller; without a backward pass the first two may be absent.
  void forward(const Context& ctx, const TensorView& x, const NormParams& norm, float eps,
               const LinearWeights& w, const TensorView& normed, const TensorView& y, Saved& saved) const;
  /// dx includes `residual` (the gradient that bypassed the layer), added before dx is rounded. `dnormed`
  /// [T,K] is working memory.
  void backward(const Context& ctx, Arena& temp, const TensorView& dy, const Saved& saved,
                const NormParams& norm, const LinearWeights& w, const TensorView& dnormed,
                const TensorView& residual, const TensorView& dx, const TensorView& dw,
                const NormParams& dnorm, const TensorView& dbias = {}) const;

  [[nodiscard]] const Linear& linear() const { return linear_; }
  [[nodiscard]] const NormSpec& norm() const { return norm_; }

 private:
  Linear linear_;
  NormSpec norm_;
  std::string norm_name_;
};

}  // namespace minite
