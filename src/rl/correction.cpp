#include "rl/correction.h"

#include <algorithm>
#include <charconv>

#include "core/fail.h"
#include "rl/ratio.h"

namespace minite::rl {

void token_ratio(std::span<const double> logp_old, std::span<const double> logp_sampler,
                 std::span<const std::uint8_t> mask, std::span<double> out) {
  for (std::size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] != 0) out[t] = bounded_exp(logp_old[t] - logp_sampler[t]);
  }
}

namespace {

struct ResponseSum {
  double log_ratio = 0.0;
  std::int64_t tokens = 0;
};
ResponseSum response_sum(std::span<const double> logp_old, std::span<const double> logp_sampler,
                         std::span<const std::uint8_t> mask) {
  ResponseSum sum;
  for (std::size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] == 0) continue;
    sum.log_ratio += logp_old[t] - logp_sampler[t];
    ++sum.tokens;
  }
  return sum;
}

void fill_valid(double value, std::span<const std::uint8_t> mask, std::span<double> out) {
  for (std::size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] != 0) out[t] = value;
  }
}

}  // namespace

void sequence_ratio(std::span<const double> logp_old, std::span<const double> logp_sampler,
                    std::span<const std::uint8_t> mask, std::span<double> out) {
  fill_valid(bounded_exp(response_sum(logp_old, logp_sampler, mask).log_ratio), mask, out);
}

void geometric_ratio(std::span<const double> logp_old, std::span<const double> logp_sampler,
                     std::span<const std::uint8_t> mask, std::span<double> out) {
  const ResponseSum sum = response_sum(logp_old, logp_sampler, mask);
  if (sum.tokens > 0) fill_valid(bounded_exp(sum.log_ratio / static_cast<double>(sum.tokens)), mask, out);
}

double truncate_ratio(double ratio, const IsThreshold& threshold) {
  return std::clamp(ratio, threshold.low, threshold.high);
}

double mask_ratio(double ratio, const IsThreshold& threshold) {
  return ratio >= threshold.low && ratio <= threshold.high ? ratio : 0.0;
}

double token_mean_weight(const IsSums& sums, const Totals& totals) {
  return sums.weight / static_cast<double>(totals.tokens);
}

double response_mean_weight(const IsSums& sums, const Totals& totals) {
  return sums.response_weight / static_cast<double>(totals.responses);
}

namespace {

double parse_number(std::string_view text, std::string_view whole) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(),
          "rollout_is_threshold '{}': '{}' is not a number; write C for TIS (e.g. 2) or low_high for IcePop "
          "(e.g. 0.5_5.0)",
          whole, text);
  return value;
}

}  // namespace

IsThreshold parse_is_threshold(std::string_view text) {
  const std::size_t bar = text.find('_');
  if (bar == std::string_view::npos) return {0.0, parse_number(text, text), OutOfRange::truncate};
  return {parse_number(text.substr(0, bar), text), parse_number(text.substr(bar + 1), text),
          OutOfRange::mask};
}

}  // namespace minite::rl
