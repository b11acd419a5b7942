#include "backends/ref/route.h"

#include <algorithm>

namespace minite::ref {
namespace {

/// Insertion into the k best so far.
template <class A>
void select(const A* x, int64_t n, int64_t k, int32_t* out) {
  int64_t held = 0;
  for (int64_t j = 0; j < n; ++j) {
    if (held == k && !(x[j] > x[out[k - 1]])) continue;
    int64_t at = held < k ? held++ : k - 1;
    for (; at > 0 && x[j] > x[out[at - 1]]; --at) out[at] = out[at - 1];
    out[at] = static_cast<int32_t>(j);
  }
}

template <class A>
void choose(const RouteArgs& args, const A* x, int64_t r) {
  const int64_t k = args.top_k;
  int32_t* chosen = args.expert.data() + r * k;
  const bool replayed = !args.replay.empty() && args.replay[static_cast<size_t>(r * k)] >= 0;
  if (!replayed || !args.live.empty()) select(x, args.logits.cols, k, chosen);
  if (!args.live.empty()) std::copy_n(chosen, k, args.live.data() + r * k);
  if (replayed) std::copy_n(args.replay.data() + r * k, k, chosen);
}

template <class A>
double balance(const RouterBalanceArgs& args) {
  double sum = 0;
  for (int64_t j = 0; j < args.prob.cols; ++j) {
    double column = 0;
    for (int64_t r = 0; r < args.prob.rows; ++r) column += static_cast<double>(args.prob.row<const A>(r)[j]);
    sum += static_cast<double>(args.groups.rows(j)) * column;
  }
  const auto tokens = static_cast<double>(args.prob.rows);
  return static_cast<double>(args.prob.cols) * sum / (tokens * tokens);
}

}  // namespace

void select_experts(const float* x, int64_t n, int64_t k, int32_t* out) { select(x, n, k, out); }
void select_experts(const double* x, int64_t n, int64_t k, int32_t* out) { select(x, n, k, out); }

void choose_experts(const RouteArgs& args, const float* x, int64_t r) { choose(args, x, r); }
void choose_experts(const RouteArgs& args, const double* x, int64_t r) { choose(args, x, r); }

void dispatch(const DispatchArgs& args) {
  const auto at = [&](int32_t e) -> int32_t& { return args.offset[static_cast<size_t>(e)]; };
  const auto experts = static_cast<int32_t>(args.offset.size()) - 1;
  std::fill(args.offset.begin(), args.offset.end(), 0);
  for (const int32_t e : args.expert) ++at(e + 1);
  for (int32_t e = 0; e < experts; ++e) at(e + 1) += at(e);
  // Each first row serves as its group's cursor and ends where the next group begins.
  for (size_t slot = 0; slot < args.expert.size(); ++slot) {
    const int32_t row = at(args.expert[slot])++;
    args.row_of[slot] = row;
    args.slot_of[static_cast<size_t>(row)] = static_cast<int32_t>(slot);
  }
  for (int32_t e = experts; e > 0; --e) at(e) = at(e - 1);
  at(0) = 0;
}

void router_balance(const RouterBalanceArgs& args) {
  *args.out = args.prob.dtype == DType::f64 ? balance<double>(args) : balance<float>(args);
}

}  // namespace minite::ref
