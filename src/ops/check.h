#pragma once
// Shape checks with the op, the argument and the shapes in the message.
#include "core/fail.h"
#include "ops/args.h"

namespace minite::ops {

inline std::string shape(const TensorView& t) {
  return fmt::format("{}x{} {}", t.rows, t.cols, dtype_name(t.dtype));
}

/// `t` must be rows x cols, and of `dtype`.
inline void check_shape(std::string_view op, std::string_view name, const TensorView& t, int64_t rows,
                        int64_t cols, DType dtype) {
  if (t.rows == rows && t.cols == cols && t.dtype == dtype && (t.data != nullptr || rows * cols == 0)) return;
  fail(ErrorCode::invalid_argument, "{}: {} is {}, expected {}x{} {}", op, name,
       t.data == nullptr && t.rows == 0 ? "absent" : shape(t), rows, cols, dtype_name(dtype));
}
inline void check_optional(std::string_view op, std::string_view name, const TensorView& t, int64_t rows,
                           int64_t cols, DType dtype) {
  if (!t.empty()) check_shape(op, name, t, rows, cols, dtype);
}
/// Accumulator dtype of a storage dtype.
inline DType accumulator(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }

inline void check_count(std::string_view op, std::string_view name, size_t have, int64_t want) {
  if (static_cast<int64_t>(have) == want) return;
  fail(ErrorCode::invalid_argument, "{}: {} has {} entries, expected {}", op, name, have, want);
}
/// Each of `values` must be in [0, limit).
inline void check_ids(std::string_view op, std::string_view name, std::span<const int32_t> values,
                      int64_t limit) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < limit) continue;
    fail(ErrorCode::invalid_argument, "{}: {}[{}] = {} is outside [0, {})", op, name, i, values[i], limit);
  }
}
/// A fused producer writes codes of an activation, row by row.
inline void check_producer(std::string_view op, const QuantSpec& spec) {
  require(spec.rounding == Rounding::nearest && spec.rotation == Rotation::none,
          "{}: {} has sr or rht, which are for gradients and wgrad operands", op, to_string(spec));
}
/// Its codes are those of `y`.
inline void check_codes(std::string_view op, const QTensor& out, const TensorView& y) {
  require(out.rows == y.rows && out.cols == y.cols, "{}: codes are {}x{}, expected {}x{}", op, out.rows,
          out.cols, y.rows, y.cols);
  check_producer(op, out.spec);
}
inline void check_scratch(std::string_view op, std::span<std::byte> scratch, int64_t need) {
  if (static_cast<int64_t>(scratch.size()) >= need) return;
  fail(ErrorCode::internal, "{}: needs {} bytes of scratch, the context has {}", op, need, scratch.size());
}

}  // namespace minite::ops
