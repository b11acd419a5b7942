#pragma once
// Operands of benchmarks: normal values in bf16.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/memory.h"
#include "core/philox.h"
#include "minite/tensor.h"

namespace minite::cli {

/// A million values drawn from N(0, scale^2), then repeated out of step with the rows. With outliers one row
/// in 64 is 30 times larger, as the activations of outlier tokens are.
struct NormalMatrix {
  Buffer memory;
  TensorView view;  ///< bf16 [rows, cols]
  NormalMatrix(int64_t rows, int64_t cols, double scale, uint64_t seed, bool outliers)
      : memory(rows * cols * 2), view(memory.data(), DType::bf16, rows, cols) {
    constexpr int64_t kDrawn = 1000003;  // a prime
    std::vector<double> drawn(static_cast<size_t>(std::min(rows * cols, kDrawn)));
    for (size_t i = 0; i < drawn.size(); ++i) {
      const auto w = Philox::generate(seed, i, 0);
      const double u = (w[0] + 0.5) * 0x1p-32, v = w[1] * 0x1p-32;
      drawn[i] = scale * std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
    }
    for (int64_t i = 0; i < rows * cols; ++i) {
      const double row_scale = outliers && (i / cols) % 64 == 0 ? 30.0 : 1.0;
      view.as<bf16>()[i] = bf16(static_cast<float>(row_scale * drawn[static_cast<size_t>(i) % drawn.size()]));
    }
  }
};

/// Activations [rows, cols] of N(0, 1) with outlier rows.
inline NormalMatrix activations(int64_t rows, int64_t cols) { return {rows, cols, 1.0, 1, true}; }
/// Weights [rows, cols] of N(0, 0.02^2).
inline NormalMatrix weights(int64_t rows, int64_t cols) { return {rows, cols, 0.02, 2, false}; }

/// The values of a contiguous bf16 matrix, exactly.
inline std::vector<float> widened(const TensorView& x) {
  return {x.as<const bf16>(), x.as<const bf16>() + x.size()};
}

}  // namespace minite::cli
