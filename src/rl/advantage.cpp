// Group-relative advantages.
#include "rl/advantage.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/fail.h"

namespace minite::rl {

// verl compute_grpo_outcome_advantage: epsilon is added to the standard deviation.
constexpr double kStdEpsilon = 1e-6;

void grpo_group(std::span<const double> centred, std::span<double> out) {
  double squares = 0.0;
  for (double c : centred) squares += c * c;
  const double std = std::sqrt(squares / static_cast<double>(centred.size() - 1));
  if (!std::isfinite(std))
    fail(ErrorCode::non_finite, "the standard deviation of a group of rewards is {}", std);
  for (std::size_t i = 0; i < centred.size(); ++i) out[i] = centred[i] / (std + kStdEpsilon);
}

void dr_grpo_group(std::span<const double> centred, std::span<double> out) {
  std::copy(centred.begin(), centred.end(), out.begin());
}

void group_advantages(AdvEstimator estimator, std::int64_t group_size, std::span<const double> rewards,
                      std::span<double> out) {
  require(group_size >= 2, "group_size = {}: an advantage relative to its group needs at least 2 samples",
          group_size);
  require(rewards.size() % static_cast<std::size_t>(group_size) == 0,
          "{} rewards do not split into groups of {}; give all samples of every prompt", rewards.size(),
          group_size);
  require(out.size() == rewards.size(), "group_advantages: {} outputs for {} rewards", out.size(),
          rewards.size());
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (!std::isfinite(rewards[i])) fail(ErrorCode::non_finite, "reward {} is {}", i, rewards[i]);
  }
  const auto size = static_cast<std::size_t>(group_size);
  std::vector<double> centred(size);
  for (std::size_t begin = 0; begin < rewards.size(); begin += size) {
    const auto group = rewards.subspan(begin, size);
    const auto group_out = out.subspan(begin, size);
    // Equal rewards are compared, not subtracted: the rounded mean of equal numbers can differ from them.
    if (std::all_of(group.begin(), group.end(), [&](double r) { return r == group[0]; })) {
      std::fill(group_out.begin(), group_out.end(), 0.0);
      continue;
    }
    double sum = 0.0;
    for (double r : group) sum += r;
    const double mean = sum / static_cast<double>(size);
    for (std::size_t i = 0; i < size; ++i) centred[i] = group[i] - mean;
    row_of(kAdvEstimators, estimator).compute(centred, group_out);
    for (std::size_t i = 0; i < size; ++i) {
      if (!std::isfinite(group_out[i])) {
        fail(ErrorCode::non_finite, "advantage {} is {}: the rewards of its group are too large for FP64",
             begin + i, group_out[i]);
      }
    }
  }
}

}  // namespace minite::rl
