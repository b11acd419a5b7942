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
  bool vectors;  ///< rows of y start at multiples of 16 bytes
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
/// Columns n .. n+count-1 of row m, count at most 8, from `acc`; whole vectors where y allows it.
__device__ inline void store_columns(const DeviceEpilogue& e, int64_t m, int64_t n, int count,
                                     const float* acc) {
  if (count < 8 || !e.vectors) {
    for (int i = 0; i < count; ++i) store(e, m, n + i, acc[i]);
    return;
  }
  float y[8];
  for (int i = 0; i < 8; ++i) y[i] = scaled(e, m, n + i, acc[i]);
  if (e.bias != nullptr) {
    for (int i = 0; i < 8; ++i) y[i] = y[i] + e.bias[n + i];
  }
  if (e.to_bf16) {
    auto* out = reinterpret_cast<uint4*>(static_cast<bf16*>(e.y) + m * e.stride + n);
    union {
      uint4 word;
      bf16 value[8];
    } u{};
    if (e.accumulate) {
      u.word = *out;
      for (int i = 0; i < 8; ++i) y[i] = y[i] + static_cast<float>(u.value[i]);
    }
    for (int i = 0; i < 8; ++i) u.value[i] = bf16(y[i]);
    *out = u.word;
    return;
  }
  auto* out = reinterpret_cast<float4*>(static_cast<float*>(e.y) + m * e.stride + n);
  for (int i = 0; i < 2; ++i) {
    float4 v = {y[4 * i], y[4 * i + 1], y[4 * i + 2], y[4 * i + 3]};
    if (e.accumulate) {
      const float4 old = out[i];
      v = {v.x + old.x, v.y + old.y, v.z + old.z, v.w + old.w};
    }
    out[i] = v;
  }
}
#endif

}  // namespace minite::cuda
