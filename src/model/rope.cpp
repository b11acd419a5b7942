#include "model/rope.h"

#include <cmath>

namespace minite {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

double frequency(double theta, int64_t half, int64_t i) {
  return std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
}

}  // namespace

std::vector<double> rope_factors(double theta, int64_t half, const RopeScaling& s) {
  std::vector<double> factors(static_cast<size_t>(half), 1.0);
  if (s.factor == 1) return factors;
  for (int64_t i = 0; i < half; ++i) {
    // Turns of this wave within the positions that the model was first trained on.
    const double turns =
        static_cast<double>(s.original_max_position_embeddings) * frequency(theta, half, i) / kTwoPi;
    if (turns > s.high_freq_factor) continue;
    const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    factors[static_cast<size_t>(i)] =
        turns < s.low_freq_factor ? s.factor : 1.0 / ((1.0 - smooth) / s.factor + smooth);
  }
  return factors;
}

void fill_rope_table(const TensorView& table, double theta, const RopeScaling& scaling) {
  const int64_t half = table.cols / 2;
  const std::vector<double> factors = rope_factors(theta, half, scaling);
  for (int64_t pos = 0; pos < table.rows; ++pos) {
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(table.cols);
      const double angle =
          static_cast<double>(pos) * (std::pow(theta, exponent) / factors[static_cast<size_t>(i)]);
      table.row<float>(pos)[i] = static_cast<float>(std::cos(angle));
      table.row<float>(pos)[half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace minite
