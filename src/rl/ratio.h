#pragma once
// The bounded exponential of every probability ratio in this room.
#include <algorithm>
#include <cmath>

namespace minite::rl {

/// verl clamps log-ratios to +-20 before exp: exp(20) = 4.9e8 is far from overflow in any format.
inline constexpr double kLogRatioBound = 20.0;

inline double bounded_exp(double log_ratio) {
  return std::exp(std::clamp(log_ratio, -kLogRatioBound, kLogRatioBound));
}

}  // namespace minite::rl
