#include "diagnostics/figure_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnostics/html.h"

namespace minite::diagnostics {
namespace {

size_t window_of(const Series& s, size_t window) {
  return window > 0 ? window : smoothing_window(s.y.size());
}

}  // namespace

std::string ends_of(const std::vector<Series>& all, size_t window) {
  std::string text;
  for (const auto& s : all) {
    if (s.y.empty()) continue;
    const auto means = running_mean(s.y, window_of(s, window));
    text += fmt::format(" {}: {} at step {}, {} at step {}.", s.label, short_number(means.front()),
                        short_number(s.x.front()), short_number(means.back()), short_number(s.x.back()));
  }
  return text;
}

std::string nonfinite_note(const std::vector<Series>& all) {
  int64_t count = 0;
  for (const auto& s : all) {
    count += std::count_if(s.y.begin(), s.y.end(), [](double v) { return !std::isfinite(v); });
  }
  return count == 0 ? "" : fmt::format(" {} values are not finite and are not drawn.", count);
}

std::string smoothing_note(const std::vector<Series>& all, size_t window) {
  size_t widest = 1;
  for (const auto& s : all) widest = std::max(widest, window_of(s, window));
  return widest == 1 ? "" : fmt::format(" Line: running mean of {} steps.", widest);
}

}  // namespace minite::diagnostics
