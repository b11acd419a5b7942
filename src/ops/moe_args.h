#pragma once
// Arguments of the ops of a mixture of experts. Legend: T tokens, E experts, k experts a token, R = T k
// packed rows, ordered by expert, then token. Slot t k + i is the i-th expert of token t, best first.
#include "ops/args.h"

namespace minite {

/// Groups of consecutive rows of a packed matrix: group g owns rows [offset[g], offset[g+1]).
struct Groups {
  std::span<const int32_t> offset;  ///< [E+1], ascending from 0; equal neighbours are an empty group

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(offset.size()) - 1; }
  [[nodiscard]] int64_t begin(int64_t g) const { return offset[static_cast<size_t>(g)]; }
  [[nodiscard]] int64_t rows(int64_t g) const { return begin(g + 1) - begin(g); }
  [[nodiscard]] int64_t total() const { return offset.empty() ? 0 : offset.back(); }
};

/// What the weights of a token's experts are.
enum class ExpertWeights : uint8_t {
  probabilities,  ///< of the softmax over all experts
  renormalized,   ///< the same divided by their sum over the token's experts (norm_topk_prob)
};

/// prob = softmax(logits) over all experts; the k experts with the largest logits, ties to the lowest index.
/// Router replay takes recorded experts instead; probabilities, weights and their gradients stay those of the
/// live logits, over all experts.
struct RouteArgs {
  TensorView logits;  ///< [T,E] f32 (f64)
  int64_t top_k = 0;  ///< in [1, E]
  ExpertWeights weights = ExpertWeights::renormalized;
  TensorView prob;            ///< [T,E] f32 (f64) out
  std::span<int32_t> expert;  ///< [T*k] out, by slot
  TensorView weight;          ///< [T,k] f32 (f64) out
  /// [T*k] by slot, or empty: what `expert` becomes; k times -1 leaves the token to its logits.
  std::span<const int32_t> replay = {};
  std::span<int32_t> live = {};  ///< [T*k] by slot out, or empty: the experts of the logits, best first
};
/// dlogits from the gradient of the weights, and of the load-balancing loss of router_balance() times
/// `balance`, whose loads count as constants.
struct RouteBackwardArgs {
  TensorView prob;  ///< as route gave them, with expert and weight
  std::span<const int32_t> expert;
  TensorView weight, dweight;  ///< [T,k] f32 (f64)
  ExpertWeights weights = ExpertWeights::renormalized;
  float balance = 0;   ///< coefficient of the loss; 0: off
  Groups groups;       ///< loads
  TensorView dlogits;  ///< [T,E] f32 (f64) out
};

/// The load-balancing loss of Switch Transformers as Transformers computes it for one layer:
/// E sum_e (load_e / T) (sum_t prob_te / T). It is k when every expert gets the same.
struct RouterBalanceArgs {
  TensorView prob;  ///< [T,E] f32 (f64)
  Groups groups;
  double* out = nullptr;
};

/// Where each slot's row is packed: a stable sort by expert.
struct DispatchArgs {
  std::span<const int32_t> expert;  ///< [R] by slot, each in [0, E)
  std::span<int32_t> offset;        ///< [E+1] out: Groups::offset
  std::span<int32_t> row_of;        ///< [R] out: packed row of a slot
  std::span<int32_t> slot_of;       ///< [R] out: slot of a packed row
};

/// y[r] = x[token of packed row r].
struct PermuteArgs {
  TensorView x;                      ///< [T,D]
  std::span<const int32_t> slot_of;  ///< [R], R = T k
  TensorView y;                      ///< [R,D]
};

/// The rows of x that a group of experts reads, and their codes. `y` is always written.
struct PermuteQuantizeArgs {
  PermuteArgs permute;
  QTensor out;  ///< [R,D]
};

/// y[t] = sum over slots of weight * x[packed row of the slot]: ascending fma chain, rounded once. Without
/// weights it is the gradient of permute.
struct CombineArgs {
  TensorView x;                     ///< [R,D]
  std::span<const int32_t> row_of;  ///< [R]
  TensorView weight;                ///< [T,k] f32 (f64), or absent: all 1
  TensorView y;                     ///< [T,D]
};
/// dx = weight * dy[token], dweight = dy[token] . x by packed row.
struct CombineBackwardArgs {
  TensorView dy;                     ///< [T,D]
  TensorView x;                      ///< [R,D] what combine read
  std::span<const int32_t> slot_of;  ///< [R]
  TensorView weight;                 ///< [T,k]
  TensorView dx;                     ///< [R,D] out; may be x
  TensorView dweight;                ///< [T,k] f32 (f64) out
};

// --- products by group -----------------------------------------------------------------------------

/// out[g] = Q(rows of group g), along rows or along columns; blocks of columns start at the group's first
/// row.
struct GroupQuantizeArgs {
  TensorView x;  ///< [R,K]
  Groups groups;
  Orientation along = Orientation::rows;
  std::span<const QTensor> out;  ///< [E]; that of an empty group is not touched
  Noise noise = {};              ///< group g draws from stream + g
};
/// Rows of group g of y = epilogue(a_g b_g^T).
struct GroupGemmArgs {
  Operand a;  ///< packed rows [R,K]
  Groups groups;
  std::span<const Operand> b;  ///< [E], each [N,K]
  TensorView y;                ///< [R,N]
};
/// Rows [g N, (g+1) N) of y += a_g b_g^T, contracted over the rows of group g. Empty groups add nothing.
struct GroupWgradArgs {
  std::span<const Operand> a;  ///< [E], each [N, rows of g]
  std::span<const Operand> b;  ///< [E], each [K, rows of g]
  TensorView y;                ///< [E*N, K] f32 (f64)
};

}  // namespace minite
