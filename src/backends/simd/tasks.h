#pragma once
// Cutting work into tasks, and dispatch on the storage type. Pieces depend on the number of threads; results
// do not, because no element's arithmetic crosses a piece.
#include "backends/op_table.h"
#include "backends/simd/unsupported.h"
#include "backends/simd/vec.h"

namespace minite::simd::MINITE_ISA {

/// Elements that are worth waking a thread for.
inline constexpr int64_t kTaskElements = 16384;

MINITE_INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
MINITE_INLINE int64_t max64(int64_t a, int64_t b) { return a < b ? b : a; }
MINITE_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
MINITE_INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

MINITE_INLINE int threads_of(const Exec& exec) { return exec.pool == nullptr ? 1 : exec.pool->threads(); }

/// body(task, thread) for task in [0, tasks); on the calling thread when one is enough.
template <class Body>
MINITE_INLINE void for_tasks(const Exec& exec, int64_t tasks, const Body& body) {
  if (tasks > 1 && threads_of(exec) > 1) return exec.pool->parallel_for(tasks, body);
  for (int64_t task = 0; task < tasks; ++task) body(task, 0);
}

/// body(begin, end) over pieces of [0, count), `unit` items at least and a multiple of it, about four a
/// thread.
template <class Body>
MINITE_INLINE void for_pieces(const Exec& exec, int64_t count, int64_t unit, const Body& body) {
  const int64_t piece = round_up(max64(ceil_div(count, int64_t{4} * threads_of(exec)), 1), unit);
  for_tasks(exec, ceil_div(count, piece),
            [&](int64_t task, int) { body(task * piece, min64(count, (task + 1) * piece)); });
}

/// body(begin, end) over pieces of `rows` rows of `cols` elements.
template <class Body>
MINITE_INLINE void for_rows(const Exec& exec, int64_t rows, int64_t cols, const Body& body) {
  for_pieces(exec, rows, max64(1, kTaskElements / max64(cols, 1)), body);
}

/// body(begin, end) over slices of columns, 64 at least, of a matrix whose rows are walked in order.
template <class Body>
MINITE_INLINE void for_columns(const Exec& exec, int64_t rows, int64_t cols, const Body& body) {
  for_pieces(exec, cols, round_up(max64(64, kTaskElements / max64(rows, 1)), 64), body);
}

/// body(tag) with a value of the storage type.
template <class Body>
MINITE_INLINE void with_type(const char* op, DType dtype, const Body& body) {
  if (dtype == DType::bf16) return body(bf16{});
  if (dtype == DType::f32) return body(float{});
  unsupported(op, dtype);
}

}  // namespace minite::simd::MINITE_ISA
