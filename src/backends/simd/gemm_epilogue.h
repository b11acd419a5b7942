#pragma once
// The epilogue of every product: outer scales, bias, what y held, one rounding.
#include "backends/ref/quantize.h"
#include "backends/simd/decode.h"
#include "backends/simd/tasks.h"
#include "ops/args.h"

namespace minite::simd::MINITE_ISA {

/// Multipliers of the accumulators of columns [col, col + count) under Epilogue::te.
MINITE_INLINE vf te_alphas(const GemmArgs& args, int64_t row, int64_t col, int64_t count) {
  const QTensor &a = args.a.q, &b = args.b.q;
  const vf ours(a.amax_of(row)), range(ref::nvfp4_range(a.spec) * ref::nvfp4_range(b.spec));
  return ours * (b.spec.outer == OuterScale::row ? load_n(b.amax + col, count) : vf(b.amax[0])) / range;
}

template <class T>
MINITE_INLINE void epilogue_row(const GemmArgs& args, int64_t row, int64_t col, int64_t n, const float* c) {
  const Operand &a = args.a, &b = args.b;
  const vf s_row(a.quantized() ? a.q.outer_of(row) : 1.0f);
  const float* s_cols = b.quantized() && b.q.spec.outer == OuterScale::row ? b.q.outer + col : nullptr;
  const vf s_all(b.quantized() && s_cols == nullptr ? b.q.outer_of(0) : 1.0f);
  const float* bias = args.bias.empty() ? nullptr : args.bias.as<const float>() + col;
  T* y = args.y.row<T>(row) + col;
  for_lanes(n, [&](int64_t i, int64_t count) {
    vf v = load(c + i);
    if (args.epilogue == Epilogue::te) {
      v = v * te_alphas(args, row, col + i, count);
    } else {
      v = v * s_row * (s_cols != nullptr ? load_n(s_cols + i, count) : s_all);
    }
    if (bias != nullptr) v = v + load_n(bias + i, count);
    if (args.output == Output::accumulate) v = v + load_n(y + i, count);
    store_n(y + i, v, count);
  });
}

/// Rows [row, row + rows) and at most `width` columns from `col` on of y from chains c, whose rows are ldc
/// apart and readable up to `width`, a multiple of 16.
MINITE_INLINE void epilogue(const GemmArgs& args, int64_t row, int64_t rows, int64_t col, int64_t width,
                            const float* c, int64_t ldc) {
  const int64_t n = min64(width, args.y.cols - col);
  for (int64_t r = 0; r < rows; ++r) {
    if (args.y.dtype == DType::bf16) {
      epilogue_row<bf16>(args, row + r, col, n, c + r * ldc);
    } else {
      epilogue_row<float>(args, row + r, col, n, c + r * ldc);
    }
  }
}

/// K = 0: every sum is empty.
MINITE_INLINE void epilogue_of_zeros(const GemmArgs& args) {
  alignas(64) const float none[kLanes] = {};
  for (int64_t row = 0; row < args.y.rows; ++row) {
    for (int64_t col = 0; col < args.y.cols; col += kLanes) epilogue(args, row, 1, col, kLanes, none, 0);
  }
}

}  // namespace minite::simd::MINITE_ISA
