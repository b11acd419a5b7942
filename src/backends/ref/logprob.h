#pragma once
// Log-probability and entropy of a row of logits, walked in tiles of 1024; A is f32 (f64 for f64).
//
//   z_j = x_j / temperature           (temperature first, then the softmax)
//   for each tile: m' = max(m, max z)   c = exp(m - m')
//     w = c * (w + (m - m') * s) + lane_sum e_j (z_j - m')      e_j = exp(z_j - m')
//     s = fma(s, c, lane_sum e_j)
//   lse = m + log s     logp = z_target - lse     entropy = log s - w / s
// A logit of -inf has probability 0 and adds nothing. Backward, p_j = exp(z_j - lse):
//   dx_j = (dlogp * (1[j = target] - p_j) - dentropy * p_j * (z_j - lse + entropy)) / temperature
#include <limits>

#include "backends/ref/numeric.h"
#include "ops/args.h"

namespace minite::ref {

inline constexpr int64_t kVocabTile = 1024;

template <class A>
struct SoftmaxStats {
  A m = -std::numeric_limits<A>::infinity();
  A s = 0;  ///< sum exp(z - m)
  A w = 0;  ///< sum exp(z - m) (z - m)
};

template <class A>
void softmax_tile(SoftmaxStats<A>& stats, const A* x, int64_t n, A temperature) {
  A m = stats.m;
  for (int64_t j = 0; j < n; ++j) {
    const A z = x[j] / temperature;
    m = m < z ? z : m;
  }
  // The first tile has s = w = 0; its distance is -inf and must not meet a 0.
  const A distance = stats.s > A(0) ? stats.m - m : A(0);
  const A c = math::exp(distance);
  const A sum = lane_sum<A>(n, [&](A acc, int64_t j) { return acc + math::exp(x[j] / temperature - m); });
  const A weighted = lane_sum<A>(n, [&](A acc, int64_t j) {
    const A t = x[j] / temperature - m;
    const A e = math::exp(t);
    return e > A(0) ? math::fma(e, t, acc) : acc;
  });
  stats.w = math::fma(c, math::fma(distance, stats.s, stats.w), weighted);
  stats.s = math::fma(stats.s, c, sum);
  stats.m = m;
}

template <class A>
void logprob(const LogprobArgs& args) {
  const A temperature = static_cast<A>(args.temperature);
  for (int64_t r = 0; r < args.logits.rows; ++r) {
    const A* x = args.logits.row<const A>(r);
    SoftmaxStats<A> stats;
    for (int64_t begin = 0; begin < args.logits.cols; begin += kVocabTile) {
      softmax_tile(stats, x + begin, std::min(kVocabTile, args.logits.cols - begin), temperature);
    }
    const A log_s = math::log(stats.s);
    const A lse = stats.m + log_s;
    args.logp.as<A>()[r] = x[args.target[r]] / temperature - lse;
    if (!args.entropy.empty()) args.entropy.as<A>()[r] = log_s - stats.w / stats.s;
    if (!args.lse.empty()) args.lse.as<A>()[r] = lse;
  }
}

template <class T>
void logprob_backward(const LogprobBackwardArgs& args) {
  using A = Acc<T>;
  const A temperature = static_cast<A>(args.temperature);
  for (int64_t r = 0; r < args.logits.rows; ++r) {
    const A* x = args.logits.row<const A>(r);
    const A lse = args.lse.as<const A>()[r];
    const A dlogp = args.dlogp.as<const A>()[r];
    for (int64_t j = 0; j < args.logits.cols; ++j) {
      const A log_p = x[j] / temperature - lse;
      const A p = math::exp(log_p);
      A grad = dlogp * ((j == args.target[r] ? A(1) : A(0)) - p);
      if (!args.dentropy.empty() && p > A(0)) {
        const A dentropy = args.dentropy.as<const A>()[r];
        grad = math::fma(-dentropy, p * (log_p + args.entropy.as<const A>()[r]), grad);
      }
      args.dlogits.row<T>(r)[j] = static_cast<T>(grad / temperature);
    }
  }
}

}  // namespace minite::ref
