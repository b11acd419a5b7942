#include "learn/non_finite.h"

#include <fmt/format.h>

#include <cmath>

namespace minite {
namespace {
double element(const TensorView& t, int64_t r, int64_t c) {
  switch (t.dtype) {
    case DType::bf16:
      return static_cast<float>(t.row<const bf16>(r)[c]);
    case DType::f32:
      return t.row<const float>(r)[c];
    default:
      return t.row<const double>(r)[c];
  }
}
}  // namespace

void NonFiniteProbe::value(const Tap& at, const TensorView& value) {
  if (!found_.empty() || at.point != Point::output) return;
  for (int64_t r = 0; r < value.rows; ++r) {
    for (int64_t c = 0; c < value.cols; ++c) {
      const double x = element(value, r, c);
      if (std::isfinite(x)) continue;
      const std::string where =
          at.layer < 0 ? std::string(at.module) : fmt::format("layers.{}.{}", at.layer, at.module);
      // The sign of a NaN differs between backends; the message must not.
      found_ = fmt::format("{}, row {}, column {}: {}", where, r, c, std::isnan(x) ? std::abs(x) : x);
      return;
    }
  }
}

}  // namespace minite
