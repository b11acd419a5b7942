#include "diagnostics/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "diagnostics/html.h"

namespace minite::diagnostics {
namespace {

constexpr double kSmallest = 1e-200;
constexpr double kLargest = 1e200;

// The smallest of 1, 2, 5, 10 times a power of ten that is at least `raw`.
double nice_step(double raw) {
  constexpr std::array<double, 4> kNice = {1, 2, 5, 10};
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double nice : kNice) {
    if (nice * power >= raw * (1 - 1e-9)) return nice * power;
  }
  return 10 * power;
}

std::string tick_label(double value, double step) {
  const double largest = std::max(std::abs(value), step);
  const bool thousands = step >= 1 && std::abs(value) >= 1000;
  if (largest >= 1e5 || step < 1e-4 || thousands) return short_number(value);
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, decimals);
}

// 1, 2 and 5 times powers of ten, from the last at or below `low` to the first at or above `high`.
std::vector<Tick> fine_log_ticks(double low, double high, int first, int last) {
  std::vector<Tick> ticks;
  for (int e = first; e <= last; ++e) {
    for (const double nice : {1.0, 2.0, 5.0}) {
      const double value = nice * std::pow(10.0, e);
      if (!ticks.empty() && value <= low * (1 + 1e-9)) ticks.clear();
      if (ticks.empty() || ticks.back().value < high * (1 - 1e-9))
        ticks.push_back({value, short_number(value)});
    }
  }
  // One value alone on the axis: a range around it.
  if (ticks.size() < 2)
    ticks = {{low / 2, short_number(low / 2)}, {low, short_number(low)}, {low * 2, short_number(low * 2)}};
  return ticks;
}

}  // namespace

bool drawable(double value) {
  const double size = std::abs(value);
  return size == 0 || (size >= kSmallest && size <= kLargest);
}

std::vector<Tick> linear_ticks(double low, double high, int count, TickRange range) {
  low = std::clamp(low, -kLargest, kLargest);
  high = std::clamp(high, -kLargest, kLargest);
  // Neighbouring doubles cannot be told apart on an axis; widen what is too narrow.
  const double least = std::max({std::abs(low), std::abs(high), kSmallest}) * 1e-9;
  if (low == 0 && high == 0) high = 1;  // nothing but zeros: a plain unit axis
  if (!(high - low > least)) {
    low -= std::max(least, std::abs(low) * 0.05);
    high += std::max(least, std::abs(high) * 0.05);
  }
  const double step = nice_step((high - low) / std::max(1, count));
  const bool cover = range == TickRange::cover;
  const double first = cover ? std::floor(low / step + 1e-9) : std::ceil(low / step - 1e-9);
  const double last = cover ? std::ceil(high / step - 1e-9) : std::floor(high / step + 1e-9);
  std::vector<Tick> ticks;
  for (double i = first; i <= last && ticks.size() < 100; ++i)
    ticks.push_back({i * step, tick_label(i * step, step)});
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high, int count) {
  low = std::clamp(low, kSmallest, kLargest);
  high = std::clamp(high, kSmallest, kLargest);
  const int first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high) - 1e-9)));
  if (last - first <= 2) return fine_log_ticks(low, high, first, last);
  const int every = std::max(1, (last - first + count - 1) / std::max(1, count));
  std::vector<Tick> ticks;
  // Counted from the top, so that the axis ends at a labelled power.
  for (int e = last; e > first - every; e -= every) {
    const std::string plain = e == 0 ? "1" : e == 1 ? "10" : fmt::format("10^{}", e);
    ticks.insert(ticks.begin(), {std::pow(10.0, e), plain});
  }
  return ticks;
}

double Axis::pixel(double value) const {
  if (scale == Scale::log && value == 0) return zero_px;
  const auto map = [&](double v) { return scale == Scale::log ? std::log10(v) : v; };
  const double at = (map(value) - map(low)) / (map(high) - map(low));
  return low_px + at * (high_px - low_px);
}

bool Axis::shows(double value) const { return drawable(value) && (scale == Scale::linear || value >= 0); }

}  // namespace minite::diagnostics
