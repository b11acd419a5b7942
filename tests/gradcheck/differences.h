#pragma once
// Central differences in FP64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/ref/table.h"
#include "core/philox.h"
#include "ops/ops.h"

namespace minite::gradcheck {

/// Uniform in [-1, 1), keyed by (stream, index).
inline double uniform(uint64_t stream, uint64_t i) {
  const auto words = Philox::generate(20250101, i, stream);
  return (static_cast<double>(words[0]) + static_cast<double>(words[1]) * 0x1p-32) * 0x1p-31 - 1.0;
}

/// A matrix of doubles that owns its memory.
struct Matrix {
  std::vector<double> data;
  int64_t rows, cols;

  Matrix(int64_t r, int64_t c) : data(static_cast<size_t>(r * c)), rows(r), cols(c) {}
  static Matrix random(int64_t r, int64_t c, uint64_t stream, double scale = 1.0) {
    Matrix m(r, c);
    for (size_t i = 0; i < m.data.size(); ++i) m.data[i] = scale * uniform(stream, i);
    return m;
  }
  [[nodiscard]] TensorView view() { return {data.data(), rows, cols}; }
  /// sum of products of all elements.
  [[nodiscard]] double dot(const Matrix& other) const {
    double sum = 0;
    for (size_t i = 0; i < data.size(); ++i) sum += data[i] * other.data[i];
    return sum;
  }
};

/// The reference without threads; scratch for the ops that need some.
struct Reference {
  ThreadPool pool{1};
  std::vector<std::byte> scratch = std::vector<std::byte>(1 << 16);
  [[nodiscard]] Context context() { return {&ref::table(), &pool, nullptr, scratch}; }
};

using Loss = std::function<double()>;

/// (loss(x + h) - loss(x - h)) / 2h with two step sizes and Richardson's extrapolation: error O(h^4).
inline double central(const std::function<double(double)>& loss_at, double h) {
  const double wide = (loss_at(2 * h) - loss_at(-2 * h)) / (4 * h);
  const double narrow = (loss_at(h) - loss_at(-h)) / (2 * h);
  return (4 * narrow - wide) / 3;
}

/// Each element of `x` (every `stride`-th) against `gradient`: |difference| <= tolerance * (1 + |gradient|).
inline void check_elements(const std::string& what, std::span<double> x, std::span<const double> gradient,
                           const Loss& loss, double tolerance = 1e-8, size_t stride = 1) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  for (size_t i = 0; i < x.size(); i += stride) {
    const double before = x[i];
    const double numeric = central(
        [&](double h) {
          x[i] = before + h;
          return loss();
        },
        1e-4);
    x[i] = before;
    ASSERT_NEAR(numeric, gradient[i], tolerance * (1 + std::abs(gradient[i]))) << what << "[" << i << "]";
  }
}

/// The derivative along one random direction of unit length, which every element takes part in.
inline void check_direction(const std::string& what, std::span<double> x, std::span<const double> gradient,
                            const Loss& loss, uint64_t stream, double tolerance = 1e-8) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  const std::vector<double> before(x.begin(), x.end());
  std::vector<double> direction(x.size());
  double norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    direction[i] = uniform(stream, i);
    norm += direction[i] * direction[i];
  }
  double analytic = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    direction[i] /= std::sqrt(norm);
    analytic += direction[i] * gradient[i];
  }
  const double numeric = central(
      [&](double h) {
        for (size_t i = 0; i < x.size(); ++i) x[i] = before[i] + h * direction[i];
        return loss();
      },
      1e-4);
  std::copy(before.begin(), before.end(), x.begin());
  EXPECT_NEAR(numeric, analytic, tolerance * (1 + std::abs(analytic))) << what;
  EXPECT_GT(std::abs(analytic), 1e-9) << what << ": a gradient of zero shows nothing";
}

}  // namespace minite::gradcheck
