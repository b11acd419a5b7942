#include "core/fail.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace minite {
namespace {
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}
}  // namespace

std::string nearest_name(std::string_view wanted, const std::vector<std::string_view>& names) {
  std::string best;
  size_t best_distance = std::max<size_t>(3, wanted.size() / 2) + 1;
  for (const auto name : names) {
    const size_t distance = edit_distance(wanted, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = std::string(name);
    }
  }
  return best;
}

std::string did_you_mean(std::string_view wanted, const std::vector<std::string_view>& names) {
  const std::string near = nearest_name(wanted, names);
  return near.empty() ? near : fmt::format("; did you mean '{}'?", near);
}

}  // namespace minite
