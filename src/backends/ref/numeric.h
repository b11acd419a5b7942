#pragma once
// What every reference op shares: the accumulator type, the 16-lane reduction and dtype dispatch.
//
// The reference is the specification: scalar, sequential, one formula a line. It is templated on the
// storage type T so that the same text runs in BF16, FP32 and, for the gradient checks, FP64.
#include <array>
#include <cstdint>
#include <type_traits>

#include "core/fail.h"
#include "core/math.h"
#include "minite/tensor.h"

namespace minite::ref {

/// FP32 accumulation, except that FP64 storage stays FP64 throughout.
template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
Acc<T> load(const T& x) {
  return static_cast<Acc<T>>(x);
}

/// A reduction along a row: lane j takes elements j, j+16, ... ascending, then lanes fold 8, 4, 2, 1.
/// `step(accumulator, i)` returns the accumulator with element i added.
template <class A, class Step>
A lane_sum(int64_t n, const Step& step) {
  std::array<A, 16> lanes{};
  for (int64_t i = 0; i < n; ++i) lanes[i % 16] = step(lanes[i % 16], i);
  for (int half = 8; half >= 1; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] = lanes[j] + lanes[j + half];
  }
  return lanes[0];
}

/// Calls body with a value of the storage type named by `dtype`.
template <class Body>
void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::bf16:
      return body(bf16{});
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    default:
      fail(ErrorCode::internal, "dtype {} has no reference kernel", dtype_name(dtype));
  }
}

}  // namespace minite::ref
