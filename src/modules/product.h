#pragma once
// One product of a linear layer alone, in FP32: what Linear computes, before its output is rounded to BF16.
#include <string>

#include "modules/linear.h"

namespace minite {

/// The tensors of a linear layer, bf16 or f32; a pass reads two of them.
struct ProductTensors {
  TensorView x;   ///< [M,K], of fprop and wgrad
  TensorView w;   ///< [N,K], of fprop and dgrad
  TensorView dy;  ///< [M,N], of dgrad and wgrad
};

/// A planned product. Operands that the recipe quantizes are quantized from the dtype they have; dense ones
/// are rounded to BF16, or kept in FP32 where the recipe says fp32. So BF16 tensors give the bits of a layer
/// that computes in BF16.
class LinearProduct {
 public:
  /// `name` stands in errors and picks the random bits of stochastic rounding, as a layer of that name.
  /// Error: unsupported when the backend has no kernel.
  LinearProduct(const QLinearParams& params, LinearPass pass, int64_t m, int64_t n, int64_t k,
                const OpTable& table, const std::string& name, Epilogue epilogue = Epilogue::minite);

  /// y = x w^T [M,N], dx = dy w [M,K] or dw = dy^T x [N,K]; f32, contiguous. Allocates its operands. No
  /// dimension is 0.
  void run(ThreadPool& pool, const ProductTensors& in, uint64_t noise, const TensorView& out) const;

  [[nodiscard]] const GemmPlan& plan() const { return plan_; }
  /// The pass's row of the recipe.
  [[nodiscard]] const MatmulSpec& spec() const { return spec_; }
  [[nodiscard]] int64_t out_rows() const { return pass_ == LinearPass::wgrad ? n_ : m_; }
  [[nodiscard]] int64_t out_cols() const { return pass_ == LinearPass::fprop ? n_ : k_; }

 private:
  struct Held;
  [[nodiscard]] Operand quantized(const Context& ctx, Held& held, const TensorView& x, Orientation along,
                                  const QuantSpec& spec, const Noise& noise) const;
  [[nodiscard]] Operand operand(const Context& ctx, Held& held, const TensorView& x, Orientation along,
                                const QuantSpec& spec, const Noise& noise = {}) const;
  [[nodiscard]] TensorView decoded(const Context& ctx, Held& held, const TensorView& x,
                                   const QuantSpec& forward) const;

  LinearPass pass_;
  QLinearParams params_;
  MatmulSpec spec_;
  int64_t m_, n_, k_;
  std::string name_;
  GemmPlan plan_;
};

}  // namespace minite
