// What DAPO does to groups and rewards before they become advantages (arXiv:2503.14476).
#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "minite/rl.h"

namespace minite::rl {

std::vector<std::int64_t> groups_with_signal(std::int64_t group_size, std::span<const double> rewards) {
  require(group_size >= 1, "group_size = {}: must be at least 1", group_size);
  const auto size = static_cast<std::size_t>(group_size);
  require(rewards.size() % size == 0, "{} rewards do not split into groups of {}", rewards.size(),
          group_size);
  std::vector<std::int64_t> kept;
  for (std::size_t begin = 0; begin < rewards.size(); begin += size) {
    const auto group = rewards.subspan(begin, size);
    const bool equal = std::all_of(group.begin(), group.end(), [&](double r) { return r == group[0]; });
    if (!equal) kept.push_back(static_cast<std::int64_t>(begin / size));
  }
  return kept;
}

double overlong_penalty(std::int64_t length, std::int64_t max_length, std::int64_t buffer_len,
                        double penalty_factor) {
  require(buffer_len >= 1 && buffer_len <= max_length, "overlong_buffer_len = {}: must be between 1 and {}",
          buffer_len, max_length);
  require(length >= 0, "a response of {} tokens", length);
  require(std::isfinite(penalty_factor) && penalty_factor >= 0.0,
          "overlong_penalty_factor = {}: must be a finite number >= 0", penalty_factor);
  const std::int64_t exceeding = std::min(length - (max_length - buffer_len), buffer_len);
  if (exceeding <= 0) return 0.0;
  return -penalty_factor * static_cast<double>(exceeding) / static_cast<double>(buffer_len);
}

}  // namespace minite::rl
