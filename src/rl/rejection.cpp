#include "rl/rejection.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/fail.h"
#include "rl/ratio.h"

namespace minite::rl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double parse_positive(std::string_view text, std::string_view whole) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() && value > 0.0 && std::isfinite(value),
          "rollout_rs_threshold '{}': '{}' is not a number > 0; write lo_hi for *_k1 (e.g. 0.5_2), an upper "
          "bound for k2 and k3 (e.g. 0.01), the least ratio for veto (e.g. 1e-4)",
          whole, text);
  return value;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string_view::npos) return parts;
    begin = comma + 1;
  }
}

void fill(std::span<double> values, double value) { std::fill(values.begin(), values.end(), value); }

double sum(std::span<const double> values) {
  double total = 0.0;
  for (double v : values) total += v;
  return total;
}

}  // namespace

void per_token(std::span<double>) {}
void sum_over_response(std::span<double> values) { fill(values, sum(values)); }
void mean_over_response(std::span<double> values) {
  fill(values, sum(values) / static_cast<double>(values.size()));
}
void max_over_response(std::span<double> values) {
  fill(values, *std::max_element(values.begin(), values.end()));
}

double divergence_k1(double x) { return -x; }
double divergence_k2(double x) { return 0.5 * x * x; }
double divergence_k3(double x) { return std::expm1(x) - x; }

Bounds ratio_bounds(std::string_view text, std::string_view whole) {
  const std::size_t bar = text.find('_');
  if (bar == std::string_view::npos) {
    const double high = std::log(parse_positive(text, whole));
    return {-high, high};
  }
  return {std::log(parse_positive(text.substr(0, bar), whole)),
          std::log(parse_positive(text.substr(bar + 1), whole))};
}

Bounds upper_bound_only(std::string_view text, std::string_view whole) {
  return {-kInfinity, parse_positive(text, whole)};
}

Bounds least_ratio(std::string_view text, std::string_view whole) {
  return {-kInfinity, -std::log(parse_positive(text, whole))};
}

std::vector<RejectionRule> parse_rollout_rs(std::string_view statistics, std::string_view thresholds) {
  constexpr std::string_view kNoRule = "none";
  if (statistics == kNoRule) {
    require(thresholds.empty(), "rollout_rs_threshold '{}' has no meaning with rollout_rs=none; leave it out",
            thresholds);
    return {};
  }
  require(!thresholds.empty(), "rollout_rs={} needs rollout_rs_threshold", statistics);
  const std::vector<std::string_view> names = split(statistics);
  const std::vector<std::string_view> texts = split(thresholds);
  require(
      texts.size() == 1 || texts.size() == names.size(),
      "rollout_rs={} has {} statistics but rollout_rs_threshold={} has {} thresholds; give one each, or one "
      "for all",
      statistics, names.size(), thresholds, texts.size());
  std::vector<RejectionRule> rules;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const RolloutRsRow& row = row_of(kRolloutRs, parse<RolloutRs>(names[i]));
    const Bounds bounds = row.parse(texts.size() == 1 ? texts[0] : texts[i], thresholds);
    rules.push_back({row.id, bounds.low, bounds.high});
  }
  return rules;
}

void reject(std::span<const RejectionRule> rules, std::span<const double> logp_old,
            std::span<const double> logp_sampler, std::span<const std::uint8_t> mask,
            std::span<std::uint8_t> keep) {
  std::vector<double> values;
  for (const RejectionRule& rule : rules) {
    const RolloutRsRow& row = row_of(kRolloutRs, rule.statistic);
    values.clear();
    for (std::size_t t = 0; t < mask.size(); ++t) {
      if (mask[t] == 0) continue;
      const double x = std::clamp(logp_old[t] - logp_sampler[t], -kLogRatioBound, kLogRatioBound);
      values.push_back(row.divergence(x));
    }
    if (values.empty()) return;
    row.reduce(values);
    std::size_t i = 0;
    for (std::size_t t = 0; t < mask.size(); ++t) {
      if (mask[t] == 0) continue;
      if (values[i] < rule.low || values[i] > rule.high) keep[t] = 0;
      ++i;
    }
  }
}

}  // namespace minite::rl
