// TRIAGE Gate. Windows are fixed by position: masked positions are left out of the statistics, not compacted.
#include <algorithm>
#include <cmath>

#include "rl/triage.h"

namespace minite::rl {
namespace {

struct WindowStats {
  std::int64_t n = 0;
  std::int64_t bad = 0;  // tokens below bad_delta
  double delta_mean = 0.0;
  double advantage_mean = 0.0;
};

int hundredths(double weight) { return static_cast<int>(std::lround(weight * 100.0)); }

// w_tail in hundredths, rounded to nearest (exact for the default count of 2: 100, 55, 10).
int tail_units(const GateConfig& config, std::int64_t bad) {
  const std::int64_t k = std::min(bad, config.bad_count_full);
  const std::int64_t depth = 100 - hundredths(config.severe_weight);
  return static_cast<int>(100 - (2 * depth * k + config.bad_count_full) / (2 * config.bad_count_full));
}

int mean_units(const GateConfig& config, double delta_mean) {
  if (delta_mean < config.severe_delta) return hundredths(config.severe_weight);
  if (delta_mean < config.neg_delta) return hundredths(config.neg_weight);
  return 100;
}

int window_units(const GateConfig& config, const WindowStats& stats) {
  if (stats.n == 0 || !(stats.advantage_mean < config.neg_adv_max)) return 100;
  return std::min(mean_units(config, stats.delta_mean), tail_units(config, stats.bad));
}

}  // namespace

void gate_units(const GateConfig& config, std::span<const double> logp_old,
                std::span<const double> logp_sampler, std::span<const double> advantage,
                std::span<const std::uint8_t> mask, std::span<std::uint8_t> units) {
  const GateScopeRow& scope = row_of(kGateScopes, config.scope);
  const auto size = static_cast<std::size_t>(config.size);
  for (std::size_t begin = 0; begin < mask.size(); begin += size) {
    const std::size_t end = std::min(begin + size, mask.size());
    WindowStats stats;
    for (std::size_t t = begin; t < end; ++t) {
      if (mask[t] == 0) continue;
      const double delta = logp_old[t] - logp_sampler[t];
      ++stats.n;
      stats.bad += delta < config.bad_delta ? 1 : 0;
      stats.delta_mean += delta;
      stats.advantage_mean += advantage[t];
    }
    if (stats.n > 0) {
      stats.delta_mean /= static_cast<double>(stats.n);
      stats.advantage_mean /= static_cast<double>(stats.n);
    }
    const auto weight = static_cast<std::uint8_t>(window_units(config, stats));
    for (std::size_t t = begin; t < end; ++t) {
      if (mask[t] == 0) {
        units[t] = 0;
      } else {
        units[t] = scope.token(logp_old[t] - logp_sampler[t]) ? weight : 100;
      }
    }
  }
}

}  // namespace minite::rl
