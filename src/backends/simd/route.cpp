// Routing of a mixture of experts (formulas: backends/ref/route.h).
#include "backends/ref/route.h"

#include "backends/simd/kernels.h"
#include "backends/simd/tasks.h"
#include "backends/simd/vec_int.h"

namespace minite::simd::MINITE_ISA {
namespace {

MINITE_INLINE void softmax_row(const float* x, int64_t n, float* p) {
  vf largest(-__builtin_inff());
  for_lanes(n, [&](int64_t j, int64_t lanes) {
    const vf next = max_or_second(load_n(x + j, lanes), largest);
    largest = lanes == kLanes ? next : select(first_lanes(lanes), next, largest);
  });
  const vf m(fold_max(largest));
  const float sum = lane_sum(n, [&](vf acc, int64_t j, int64_t lanes) {
    const vf e = math::exp(load_n(x + j, lanes) - m);
    store_n(p + j, e, lanes);
    return acc + e;
  });
  for_lanes(n, [&](int64_t j, int64_t lanes) { store_n(p + j, load_n(p + j, lanes) / vf(sum), lanes); });
}

MINITE_INLINE void route_row(const RouteArgs& args, int64_t r) {
  const float* x = args.logits.row<const float>(r);
  float* p = args.prob.row<float>(r);
  softmax_row(x, args.logits.cols, p);
  ref::choose_experts(args, x, r);
  const int32_t* chosen = args.expert.data() + r * args.top_k;
  float total = 1.0f;
  if (args.weights == ExpertWeights::renormalized) {
    total = 0.0f;
    for (int64_t i = 0; i < args.top_k; ++i) total = total + p[chosen[i]];
  }
  for (int64_t i = 0; i < args.top_k; ++i) args.weight.row<float>(r)[i] = p[chosen[i]] / total;
}

MINITE_INLINE void route_backward_row(const RouteBackwardArgs& args, float scale, int64_t r) {
  const int64_t experts = args.prob.cols, k = args.weight.cols;
  const float* p = args.prob.row<const float>(r);
  const float* w = args.weight.row<const float>(r);
  const float* dw = args.dweight.row<const float>(r);
  const int32_t* chosen = args.expert.data() + r * k;
  float* dx = args.dlogits.row<float>(r);
  for (int64_t j = 0; j < experts; ++j) {
    dx[j] = args.balance == 0.0f ? 0.0f : scale * static_cast<float>(args.groups.rows(j));
  }
  float total = 0, mean = 0;
  for (int64_t i = 0; i < k; ++i) {
    total = total + p[chosen[i]];
    mean = math::fma(dw[i], w[i], mean);
  }
  const bool renormalized = args.weights == ExpertWeights::renormalized;
  for (int64_t i = 0; i < k; ++i) {
    dx[chosen[i]] = dx[chosen[i]] + (renormalized ? (dw[i] - mean) / total : dw[i]);
  }
  const vf dot(lane_sum(
      experts, [&](vf acc, int64_t j, int64_t n) { return fma(load_n(dx + j, n), load_n(p + j, n), acc); }));
  for_lanes(experts,
            [&](int64_t j, int64_t n) { store_n(dx + j, load_n(p + j, n) * (load_n(dx + j, n) - dot), n); });
}

}  // namespace

void route(const RouteArgs& args, const Exec& exec) {
  if (args.logits.dtype != DType::f32) unsupported("route", args.logits.dtype);
  for_rows(exec, args.logits.rows, args.logits.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) route_row(args, r);
  });
}

void route_backward(const RouteBackwardArgs& args, const Exec& exec) {
  if (args.prob.dtype != DType::f32) unsupported("route_backward", args.prob.dtype);
  const float scale = ref::balance_scale<float>(args);
  for_rows(exec, args.prob.rows, args.prob.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) route_backward_row(args, scale, r);
  });
}

// Integers and FP64 sums that no lane order can change: one copy serves.
void router_balance(const RouterBalanceArgs& args, const Exec&) { ref::router_balance(args); }
void dispatch(const DispatchArgs& args, const Exec&) { ref::dispatch(args); }

}  // namespace minite::simd::MINITE_ISA
