#pragma once
// Arguments of the ops over groups whose bounds lie in the backend's memory: a device learns them from a
// kernel before and never tells the host. Legend: E groups (experts), R packed rows at most, ordered by
// group.
//
// Unlike the ops of moe_args.h, which are given one operand a group and the bounds on the host, these take
// all groups as one matrix.
#include "ops/args.h"

namespace minite {

/// Group g owns the packed rows [offset[g], offset[g+1]). The host knows how many groups there are and an
/// upper bound of the rows; rows from offset[count] on belong to nobody.
struct GroupBounds {
  const int32_t* offset = nullptr;  ///< [count + 1] in the backend's memory, ascending from 0
  int64_t count = 0;                ///< E
};

/// Outer scales of an operand whose codes are elsewhere: multipliers, `none`, one for all (`tensor`), one a
/// group (`expert`, [E]) or one a line of the operand (`row`, [E * lines]).
struct GroupScales {
  const float* scale = nullptr;
  OuterScale per = OuterScale::none;

  [[nodiscard]] bool empty() const { return scale == nullptr || per == OuterScale::none; }
};

/// Rows of group g: y = a b_g^T, with the bits of one gemm() of that group. Forward: b holds the weights
/// [E*N, K]. Backward to the input: dense weights [E*K, N], read by columns.
struct GroupedGemmArgs {
  /// Packed rows [R, K]. Outer scales: none, `row` [R] or `expert` [E].
  Operand a;
  GroupBounds groups;
  /// All weights as one operand: [E*N, K], or dense [E*K, N] with Orientation::columns. Outer scales: none,
  /// `tensor` [1], `expert` [E] or `row` [E*N].
  Operand b;
  TensorView y;  ///< [R, N] bf16 or f32; rows of no group are not written. Must not overlap the operands
  SumOrder order = SumOrder::backend;
};

/// y_g = (y_g +) a_g^T b_g over the rows of group g: acc, times a's scale of the line, times b's scale of the
/// column, plus y when accumulating. The bits of gemm() of that group's operands, read by columns, with K =
/// its rows. A group without rows adds nothing; overwritten, its y is 0 whatever its scales are.
struct GroupedWgradArgs {
  TensorView a, b;     ///< [R, N] and [R, K] bf16: values without outer scales
  GroupScales as, bs;  ///< lines: N, K
  GroupBounds groups;
  TensorView y;  ///< [E*N, K] f32; must not overlap a and b
  Output output = Output::accumulate;
};

/// Codes of packed rows [R, C], and what they decode to.
///
/// Along rows `out` is [R, C]; its outer scales are none, `row` [R] or `expert` [E]. Along columns blocks
/// start at a group's first row and a cut block behaves as if padded with zeros, which are stored: with P_g =
/// the rows of g rounded up to whole blocks and S_g = the sum of P before g, group g's codes are a matrix [C,
/// P_g] of its own that starts at element C * S_g of out.codes, its block scales at block C * S_g / block.
/// `out` is stated as [C, padded_rows()]. Outer scales: none, `expert` [E] or `row` [E*C]. Codes and decoded
/// values of rows of no group are not written; outer scales and amaxes of such rows, and of groups without
/// rows, are unspecified.
struct GroupedQuantizeArgs {
  TensorView x;  ///< [R, C] bf16 or f32
  GroupBounds groups;
  Orientation along = Orientation::rows;
  /// Along columns codes and block scales may be absent; places for outer scales and amaxes are needed.
  QTensor out;
  /// [R, C] bf16 or absent: what the codes decode to without their outer scale, in the places of x whichever
  /// way x is read: what grouped_wgrad takes. Not with a rotation, whose last group is longer than its rows.
  TensorView decoded = {};
  Noise noise = {};  ///< group g draws from stream + g, its blocks counted from its first
};

/// Columns that hold the padded columns of every group, however R rows are spread over E groups.
[[nodiscard]] constexpr int64_t padded_rows(int64_t rows, int64_t groups, int64_t block) {
  return (rows + groups * (block - 1)) / block * block;
}

/// Group g of a grouped op as operands of its own, where the host knows its rows [begin, begin + rows).
struct GroupRows {
  int64_t group = 0, begin = 0, rows = 0;
};
[[nodiscard]] GemmArgs group_of(const GroupedGemmArgs& args, const GroupRows& g);
/// Without scales of GroupScales: products of dense operands have none.
[[nodiscard]] GemmArgs group_of(const GroupedWgradArgs& args, const GroupRows& g);
/// `padded` is S_g. Along columns the codes of the last block are whole, and nothing is decoded.
[[nodiscard]] QuantizeArgs group_of(const GroupedQuantizeArgs& args, const GroupRows& g, int64_t padded);

}  // namespace minite
