#pragma once
// What every product does with an accumulator, in the order of docs/numerics.md: the scale of the row, that
// of the column, bias, the old output, one rounding. Or Epilogue::te.
#include <string>

#include "backends/op_table.h"

namespace minite::cuda {

/// Scales and output of a product, by value in a kernel's arguments.
struct DeviceEpilogue {
  const float* a;          ///< outer scales (te: amaxes) of rows, or nullptr
  const float* b;          ///< of columns
  int64_t a_step, b_step;  ///< 1: one each, 0: one for all
  const float* bias;       ///< or nullptr
  void* y;
  int64_t stride;  ///< elements between rows of y
  float te_range;  ///< Epilogue::te: acc * fl(fl(A_x A_w) / te_range); 0 for Epilogue::minite
  bool accumulate;
  bool to_bf16;  ///< y is bf16, else f32
};
[[nodiscard]] DeviceEpilogue device_epilogue(const GemmArgs& args);

#ifdef __CUDACC__
__device__ inline float scaled(const DeviceEpilogue& e, int64_t m, int64_t n, float acc) {
  if (e.te_range != 0.0f) return acc * (e.a[m * e.a_step] * e.b[n * e.b_step] / e.te_range);
  if (e.a != nullptr) acc = acc * e.a[m * e.a_step];
  if (e.b != nullptr) acc = acc * e.b[n * e.b_step];
  return acc;
}
__device__ inline void store(const DeviceEpilogue& e, int64_t m, int64_t n, float acc) {
  float y = scaled(e, m, n, acc);
  if (e.bias != nullptr) y = y + e.bias[n];
  if (e.to_bf16) {
    bf16* out = static_cast<bf16*>(e.y) + m * e.stride + n;
    *out = bf16(e.accumulate ? y + static_cast<float>(*out) : y);
  } else {
    float* out = static_cast<float*>(e.y) + m * e.stride + n;
    *out = e.accumulate ? y + *out : y;
  }
}
#endif

}  // namespace minite::cuda
