#pragma once
// Routing of a mixture of experts; A is f32 (f64 for f64).
//
//   m = max x     e_j = exp(x_j - m)     p_j = e_j / lane_sum e
//   experts: the k largest x, ties to the lowest index, or those replayed
//   w_i = p of the i-th, over their sum in slot order
// Backward, s = that sum (1 for plain probabilities), n_j = load of expert j:
//   dp_j = balance * E / T^2 * n_j, and for the experts of the token + (dw_i - sum dw w) / s (plain: + dw_i)
//   dx_j = p_j * (dp_j - lane_sum dp p)
#include <limits>

#include "backends/ref/numeric.h"
#include "ops/moe_args.h"

namespace minite::ref {

/// Indices of the k largest of n, best first, ties to the lowest index. A NaN never replaces another entry.
void select_experts(const float* x, int64_t n, int64_t k, int32_t* out);
void select_experts(const double* x, int64_t n, int64_t k, int32_t* out);
/// Experts of token `r` whose logits are `x`: args.expert, and args.live when given.
void choose_experts(const RouteArgs& args, const float* x, int64_t r);
void choose_experts(const RouteArgs& args, const double* x, int64_t r);
/// Stable counting sort of the slots by expert.
void dispatch(const DispatchArgs& args);
/// FP64: columns summed over ascending rows, then experts ascending.
void router_balance(const RouterBalanceArgs& args);

template <class A>
void route(const RouteArgs& args) {
  const int64_t experts = args.logits.cols, k = args.top_k;
  for (int64_t r = 0; r < args.logits.rows; ++r) {
    const A* x = args.logits.row<const A>(r);
    A* p = args.prob.row<A>(r);
    A m = -std::numeric_limits<A>::infinity();
    for (int64_t j = 0; j < experts; ++j) m = m < x[j] ? x[j] : m;
    const A sum = lane_sum<A>(experts, [&](A acc, int64_t j) { return acc + math::exp(x[j] - m); });
    for (int64_t j = 0; j < experts; ++j) p[j] = math::exp(x[j] - m) / sum;
    choose_experts(args, x, r);
    const int32_t* chosen = args.expert.data() + r * k;
    A total = args.weights == ExpertWeights::renormalized ? A(0) : A(1);
    if (args.weights == ExpertWeights::renormalized) {
      for (int64_t i = 0; i < k; ++i) total = total + p[chosen[i]];
    }
    for (int64_t i = 0; i < k; ++i) args.weight.row<A>(r)[i] = p[chosen[i]] / total;
  }
}

/// What each row of route_backward adds to dp for a load of one row.
template <class A>
MINITE_INLINE A balance_scale(const RouteBackwardArgs& args) {
  const A tokens = static_cast<A>(args.prob.rows);
  return static_cast<A>(args.balance) * static_cast<A>(args.prob.cols) / (tokens * tokens);
}

template <class A>
void route_backward(const RouteBackwardArgs& args) {
  const int64_t experts = args.prob.cols, k = args.weight.cols;
  const bool renormalized = args.weights == ExpertWeights::renormalized;
  const A scale = balance_scale<A>(args);
  for (int64_t r = 0; r < args.prob.rows; ++r) {
    const A* p = args.prob.row<const A>(r);
    const A* w = args.weight.row<const A>(r);
    const A* dw = args.dweight.row<const A>(r);
    const int32_t* chosen = args.expert.data() + r * k;
    A* dx = args.dlogits.row<A>(r);
    for (int64_t j = 0; j < experts; ++j) {
      dx[j] = args.balance == 0.0f ? A(0) : scale * static_cast<A>(args.groups.rows(j));
    }
    A total = 0, mean = 0;
    for (int64_t i = 0; i < k; ++i) {
      total = total + p[chosen[i]];
      mean = math::fma(dw[i], w[i], mean);
    }
    for (int64_t i = 0; i < k; ++i) {
      dx[chosen[i]] = dx[chosen[i]] + (renormalized ? (dw[i] - mean) / total : dw[i]);
    }
    const A dot = lane_sum<A>(experts, [&](A acc, int64_t j) { return math::fma(dx[j], p[j], acc); });
    for (int64_t j = 0; j < experts; ++j) dx[j] = p[j] * (dx[j] - dot);
  }
}

}  // namespace minite::ref
