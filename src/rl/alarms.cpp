#include "rl/alarms.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "minite/rl.h"
#include "rl/gap_details.h"

namespace minite::rl {
namespace {

struct Step {
  const RunConfig& config;
  int64_t number;  ///< from 1
  const learn::Metrics &now, &before;

  /// NaN where the metric is not there, so that no comparison holds.
  static double of(const learn::Metrics& metrics, const char* name) {
    const auto it = metrics.find(name);
    return it == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : it->second;
  }
  [[nodiscard]] double at(const char* name) const { return of(now, name); }
};

constexpr const char* kGap = "train_rollout_logprob_abs_diff";

struct Row {
  std::string_view name;
  bool in_contrast;  ///< a contrast has a gap on purpose
  bool (*sounds)(const Step& s);
  std::string (*text)(const Step& s);
};

constexpr std::array kAlarms = {
    Row{"first gap", false, [](const Step& s) { return s.number == 1 && s.at(kGap) > kFirstGapAlarm; },
        [](const Step& s) {
          return fmt::format(
              "the gap of the first step is {:.3f} nats a token, more than recipes make (alarm "
              "above {}). Look for other weights, another temperature, log-probs that are scaled "
              "or shifted by one token",
              s.at(kGap), kFirstGapAlarm);
        }},
    Row{"gap jump", false,
        [](const Step& s) {
          const double before = Step::of(s.before, kGap);
          return s.at(kGap) > kGapJumpAlarm * before && s.at(kGap) > before + kFirstGapAlarm / 4;
        },
        [](const Step& s) {
          return fmt::format(
              "the gap jumped from {:.3f} to {:.3f} nats a token after the update of the step "
              "before. Look for weights, scales or caches that the sampler did not refresh",
              Step::of(s.before, kGap), s.at(kGap));
        }},
    Row{"outliers", false,
        [](const Step& s) { return is_outlier(s.at("gap_response_max"), s.at("gap_response_q50")); },
        [](const Step& s) {
          return fmt::format(
              "a response has a gap of {:.3f} nats a token, the median response {:.2g}: the mean "
              "{:.3f} hides it. Look for what these prompts have in common",
              s.at("gap_response_max"), s.at("gap_response_q50"), s.at(kGap));
        }},
    Row{"rejection", true, [](const Step& s) { return s.at("rollout_rs_masked_fraction") > 0.5; },
        [](const Step& s) {
          return fmt::format(
              "rollout_rs={} with rollout_rs_threshold={} rejects {:.0f} % of the tokens; sums over "
              "a response grow with its length",
              s.config.rl.rollout_rs, s.config.rl.rollout_rs_threshold,
              100 * s.at("rollout_rs_masked_fraction"));
        }},
    Row{"mask", true,
        [](const Step& s) {
          return s.at("tis_clipfrac") > 0.5 &&
                 parse_is_threshold(s.config.rl.rollout_is_threshold).outside == OutOfRange::mask;
        },
        [](const Step& s) {
          return fmt::format(
              "rollout_is={} with rollout_is_threshold={} masks {:.0f} % of the tokens; the ratio of "
              "a sequence grows with its length, that of geometric does not",
              s.config.rl.rollout_is, s.config.rl.rollout_is_threshold, 100 * s.at("tis_clipfrac"));
        }},
};

}  // namespace

std::vector<std::string> Alarms::check(int64_t step, const learn::Metrics& metrics) {
  const Step s{config_, step, metrics, before_};
  std::vector<std::string> warnings;
  for (const Row& row : kAlarms) {
    if (stage_ == learn::Stage::sft || (stage_ == learn::Stage::contrast && !row.in_contrast)) continue;
    if (sounded_.contains(row.name) || !row.sounds(s)) continue;
    sounded_.insert(row.name);
    warnings.push_back(fmt::format("warning: {} step {}: {}", learn::stage_name(stage_), step, row.text(s)));
  }
  before_ = metrics;
  return warnings;
}

}  // namespace minite::rl
