// The functions of core/math.h on lanes, compiled once for each instruction set.
#include "backends/simd/vec.h"

namespace minite::simd::MINITE_ISA {

void exp_lanes(float* x, int64_t n) {
  for_lanes(n, [&](int64_t i, int64_t lanes) { store_n(x + i, math::exp(load_n(x + i, lanes)), lanes); });
}
void log_lanes(float* x, int64_t n) {
  for_lanes(n, [&](int64_t i, int64_t lanes) { store_n(x + i, math::log(load_n(x + i, lanes)), lanes); });
}
void sigmoid_lanes(float* x, int64_t n) {
  for_lanes(n, [&](int64_t i, int64_t lanes) { store_n(x + i, math::sigmoid(load_n(x + i, lanes)), lanes); });
}

}  // namespace minite::simd::MINITE_ISA
