#pragma once
// GroupedLinear: num_gemms linear layers of one shape, each on its own rows of a packed batch (the experts of
// a layer). One recipe and one plan for all; a row's bits are those of a Linear with its expert's weight.
//
// Shapes: x [R,K] packed by group, w one [N,K] a group, y [R,N], dw [G*N,K] in FP32, accumulated.
#include "modules/linear.h"

namespace minite {

class GroupedLinear {
 public:
  /// `resolved.module` has the n and k of one group. Throws as Linear does.
  GroupedLinear(int64_t num_gemms, const ResolvedLinear& resolved, DType compute, const OpTable& table,
                const Policy& policy)
      : num_gemms_(num_gemms), each_(resolved, compute, table, policy), compute_(compute) {}

  /// Quantizes x when the recipe says so (into saved.xq, placed for R rows) and computes y. `w` has one entry
  /// a group. Row and block scales belong to a row; a tensor-wide activation scale spans the rows of all
  /// groups.
  void forward(const Context& ctx, const TensorView& x, const Groups& groups,
               std::span<const LinearWeights> w, const TensorView& y, LinearSaved& saved) const;
  /// The same when saved.xq already holds the codes of x.
  void forward_prequantized(const Context& ctx, const TensorView& x, const Groups& groups,
                            std::span<const LinearWeights> w, const TensorView& y, LinearSaved& saved) const;
  /// dx = dy w and dw += dy^T x, group by group; blocks of quantized wgrad operands start at a group's first
  /// row. `temp` gives working memory of backward_bytes(R), returned before the call ends.
  void backward(const Context& ctx, Arena& temp, const TensorView& dy, const Groups& groups,
                const LinearSaved& saved, std::span<const LinearWeights> w, const TensorView& dx,
                const TensorView& dw) const;

  /// For `rows` packed rows, however they are spread over the groups.
  [[nodiscard]] int64_t backward_bytes(int64_t rows) const;
  [[nodiscard]] int64_t scratch(int64_t rows, int threads) const { return each_.scratch(rows, threads); }

  [[nodiscard]] int64_t num_gemms() const { return num_gemms_; }
  /// The layer of one group.
  [[nodiscard]] const Linear& each() const { return each_; }

 private:
  void dgrad(const Context& ctx, Arena& temp, const TensorView& dy, const Groups& groups,
             std::span<const LinearWeights> w, const TensorView& dx) const;
  void wgrad(const Context& ctx, Arena& temp, const TensorView& dy, const Groups& groups,
             const LinearSaved& saved, const TensorView& dw) const;
  [[nodiscard]] std::vector<Operand> columns(const Context& ctx, Arena& temp, const TensorView& x,
                                             const Groups& groups, const QuantSpec& spec, Point point,
                                             const Noise& noise) const;

  int64_t num_gemms_;
  Linear each_;
  DType compute_;
};

}  // namespace minite
