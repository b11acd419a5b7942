#include "diagnostics/error_stats.h"

#include <cmath>
#include <limits>

namespace minite::diagnostics {

void ErrorStats::add(std::span<const float> x, std::span<const float> decoded) {
  for (size_t i = 0; i < x.size(); ++i) {
    nonfinite_decoded += std::isfinite(decoded[i]) ? 0 : 1;
    ++count;
    if (!std::isfinite(x[i])) {
      ++nonfinite;
      continue;
    }
    const double value = x[i], difference = static_cast<double>(decoded[i]) - value;
    signal += value * value;
    noise += difference * difference;
    absolute += std::fabs(difference);
  }
}

void ErrorStats::merge(const ErrorStats& later) {
  count += later.count;
  nonfinite += later.nonfinite;
  nonfinite_decoded += later.nonfinite_decoded;
  signal += later.signal;
  noise += later.noise;
  absolute += later.absolute;
}

double ErrorStats::relative_l2() const { return noise == 0 ? 0 : std::sqrt(noise / signal); }

double ErrorStats::snr_db() const {
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10.0 * std::log10(signal / noise);
}

double ErrorStats::mae() const {
  const int64_t finite = count - nonfinite;
  return finite == 0 ? 0 : absolute / static_cast<double>(finite);
}

}  // namespace minite::diagnostics
