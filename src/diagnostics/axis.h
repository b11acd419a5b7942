#pragma once
// Axes of a figure: which ticks, and where a value lies.
#include <string>
#include <vector>

namespace minite::diagnostics {

enum class Scale : unsigned char { linear, log };

struct Tick {
  double value;
  std::string label;  ///< plain text; "10^-3" stands for a power, drawn with a raised exponent
};

/// Finite, and 0 or of a size within 1e-200..1e200, where the arithmetic of an axis is safe.
[[nodiscard]] bool drawable(double value);

/// Ticks at 1, 2 or 5 times a power of ten that cover [low, high]; about `count` of them. The first and last
/// ticks lie at or outside the range when `cover`, inside it otherwise.
enum class TickRange : unsigned char { inside, cover };
[[nodiscard]] std::vector<Tick> linear_ticks(double low, double high, int count, TickRange range);

/// Powers of ten that cover [low, high], 0 < low <= high, every n-th when there are more than `count`; within
/// one or two decades also 2 and 5 times a power.
[[nodiscard]] std::vector<Tick> log_ticks(double low, double high, int count);

/// Maps values to pixels. On a log axis the value 0 has a row of its own below the rest.
struct Axis {
  Scale scale = Scale::linear;
  double low = 0, high = 1;        ///< values at the ends
  double low_px = 0, high_px = 1;  ///< their pixels
  double zero_px = 0;              ///< pixel of 0 on a log axis

  [[nodiscard]] double pixel(double value) const;
  /// Whether the axis has a place for a value: drawable(), and not negative on a log axis.
  [[nodiscard]] bool shows(double value) const;
};

}  // namespace minite::diagnostics
