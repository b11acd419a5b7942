#pragma once
// Rows to their experts and back.
//
//   permute: y_r = x_t     combine: y_t = fma(w_i, x_r(i), y), i ascending from 0, rounded once
//   combine backward: dx_r = w * dy_t     dw = lane_sum dy_t x_r
#include "backends/ref/numeric.h"
#include "ops/moe_args.h"

namespace minite::ref {

template <class T>
void permute(const PermuteArgs& args) {
  const int64_t k = args.y.rows / args.x.rows;
  for (int64_t r = 0; r < args.y.rows; ++r) {
    const T* x = args.x.row<const T>(args.slot_of[static_cast<size_t>(r)] / k);
    for (int64_t i = 0; i < args.y.cols; ++i) args.y.row<T>(r)[i] = x[i];
  }
}

template <class T>
void combine(const CombineArgs& args) {
  using A = Acc<T>;
  const int64_t k = args.x.rows / args.y.rows;
  for (int64_t t = 0; t < args.y.rows; ++t) {
    for (int64_t c = 0; c < args.y.cols; ++c) {
      A acc = 0;
      for (int64_t i = 0; i < k; ++i) {
        const A w = args.weight.empty() ? A(1) : args.weight.row<const A>(t)[i];
        acc = math::fma(w, load(args.x.row<const T>(args.row_of[static_cast<size_t>(t * k + i)])[c]), acc);
      }
      args.y.row<T>(t)[c] = static_cast<T>(acc);
    }
  }
}

template <class T>
void combine_backward(const CombineBackwardArgs& args) {
  using A = Acc<T>;
  const int64_t k = args.weight.cols;
  for (int64_t r = 0; r < args.x.rows; ++r) {
    const int64_t slot = args.slot_of[static_cast<size_t>(r)];
    const T* dy = args.dy.row<const T>(slot / k);
    const T* x = args.x.row<const T>(r);
    const A w = args.weight.row<const A>(slot / k)[slot % k];
    args.dweight.row<A>(slot / k)[slot % k] =
        lane_sum<A>(args.x.cols, [&](A acc, int64_t i) { return math::fma(load(dy[i]), load(x[i]), acc); });
    for (int64_t i = 0; i < args.x.cols; ++i) args.dx.row<T>(r)[i] = static_cast<T>(w * load(dy[i]));
  }
}

}  // namespace minite::ref
