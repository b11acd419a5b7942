#pragma once
// What every product does with an accumulator, in the order of docs/numerics.md: the scale of the row, that
// of the column, bias, the old output, one rounding. Or Epilogue::te.
#include <string>

#include "backends/op_table.h"

#ifdef __CUDACC__
#include "backends/cuda/common/packed.h"
#endif

namespace minite::cuda {

/// Scales and output of a product, by value in a kernel's arguments.
struct DeviceEpilogue {
  const float* a;          ///< outer scales (te: amaxes) of rows, or nullptr
  const float* b;          ///< of columns
  int64_t a_step, b_step;  ///< 1: one each, 0: one for all
  const float* bias;       ///< or nullptr
  void* y;
  int64_t stride;  ///< elements between rows of y
  float gain;      ///< a power of two that sums are multiplied with first
  float te_range;  ///< Epilogue::te: acc * fl(fl(A_x A_w) / te_range); 0 for Epilogue::minite
  bool accumulate;
  bool to_bf16;  ///< y is bf16, else f32
  bool vectors;  ///< rows of y start at multiples of 16 bytes
};
[[nodiscard]] DeviceEpilogue device_epilogue(const GemmArgs& args);

#ifdef __CUDACC__
/// An accumulator times the scales of its row and column (1 where there are none).
__device__ inline float scaled(const DeviceEpilogue& e, float acc, float row, float column) {
  acc = acc * e.gain;
  if (e.te_range != 0.0f) return acc * (row * column / e.te_range);
  if (e.a != nullptr) acc = acc * row;
  if (e.b != nullptr) acc = acc * column;
  return acc;
}
/// y[m, n] from what is to be stored there, or added.
__device__ inline void put(const DeviceEpilogue& e, int64_t m, int64_t n, float y) {
  if (e.to_bf16) {
    bf16* out = static_cast<bf16*>(e.y) + m * e.stride + n;
    *out = bf16(e.accumulate ? y + static_cast<float>(*out) : y);
  } else {
    float* out = static_cast<float*>(e.y) + m * e.stride + n;
    *out = e.accumulate ? y + *out : y;
  }
}
__device__ inline void store(const DeviceEpilogue& e, int64_t m, int64_t n, float acc) {
  const float row = e.a == nullptr ? 1.0f : e.a[m * e.a_step],
              column = e.b == nullptr ? 1.0f : e.b[n * e.b_step];
  float y = scaled(e, acc, row, column);
  if (e.bias != nullptr) y = y + e.bias[n];
  put(e, m, n, y);
}
/// Columns n .. n+count-1 of row m, count at most 8, scaled and with bias already; whole vectors where y
/// allows it.
__device__ inline void store_columns(const DeviceEpilogue& e, int64_t m, int64_t n, int count, float* y) {
  if (count < 8 || !e.vectors) {
    for (int i = 0; i < count; ++i) put(e, m, n + i, y[i]);
    return;
  }
  if (e.to_bf16) {
    auto* out = reinterpret_cast<uint4*>(static_cast<bf16*>(e.y) + m * e.stride + n);
    union {
      uint4 word;
      uint32_t pair[4];
    } u{};
    if (e.accumulate) {
      u.word = *out;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        y[2 * i] = y[2 * i] + __uint_as_float(u.pair[i] << 16);
        y[2 * i + 1] = y[2 * i + 1] + __uint_as_float(u.pair[i] & 0xFFFF0000u);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) u.pair[i] = pack_bf16(y[2 * i], y[2 * i + 1]);
    *out = u.word;
    return;
  }
  auto* out = reinterpret_cast<float4*>(static_cast<float*>(e.y) + m * e.stride + n);
#pragma unroll
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
