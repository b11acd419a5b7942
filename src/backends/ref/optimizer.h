#pragma once
// AdamW on FP32 masters and the sum of squares for gradient clipping.
//
//   g = grad * grad_scale       m = fma(b1, m, (1-b1) g)        v = fma(b2, v, ((1-b2) g) g)
//   master = fma(-lr, fma(wd, master, (m / c1) / (sqrt(v / c2) + eps)), master),   c_i = 1 - b_i^step
#include "ops/args.h"

namespace minite::ref {

/// Bias corrections 1 - beta^step, computed in FP64 and rounded once.
struct BiasCorrection {
  float c1, c2;
  explicit BiasCorrection(const AdamWArgs& args);
};

void adamw(const AdamWArgs& args);
void sum_squares(const SumSquaresArgs& args);
/// Sum of squares of one chunk of at most 4096 elements: 16 FP64 lanes.
double sum_squares_chunk(const float* x, int64_t n);
inline constexpr int64_t kSumChunk = 4096;

}  // namespace minite::ref
