#include "diagnostics/headline.h"

#include <algorithm>
#include <cmath>

#include "diagnostics/html.h"

namespace minite::diagnostics {
namespace {

// summary.json means the first and last 20 RL steps; the same holds when it is not there yet.
constexpr size_t kRewardWindow = 20;

std::optional<double> summary_number(const RunData& run, const char* key) {
  if (!run.summary.is_object() || !run.summary.contains(key) || !run.summary[key].is_number())
    return std::nullopt;
  return run.summary[key].get<double>();
}

// Mean of the finite values at [begin, end).
std::optional<double> mean_of(const Column* column, size_t begin, size_t end) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = begin; column != nullptr && i < end; ++i) {
    if (!std::isfinite(column->value[i])) continue;
    sum += column->value[i];
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

std::optional<double> mean_of(const Column* column) {
  return mean_of(column, 0, column == nullptr ? 0 : column->value.size());
}

std::optional<double> largest_of(const Column* column) {
  if (column == nullptr || column->value.empty()) return std::nullopt;
  return *std::max_element(column->value.begin(), column->value.end());
}

// Harmonic in the steps: all tokens over all seconds.
std::optional<double> speed_of(const RunData& run) {
  const Column* tokens = column_of(run, "rl", "tokens");
  const StageData* rl = run.find("rl");
  if (tokens == nullptr || rl->throughput.value.empty()) return std::nullopt;
  double seconds = 0, count = 0;
  for (const auto& [name, part] : rl->seconds) seconds += part.sum;
  for (const double t : tokens->value) count += t;
  return seconds > 0 ? std::optional(count / seconds) : std::nullopt;
}

void add_stages(const RunData& run, Headline& h) {
  for (const auto stage : kStages) {
    const StageData* data = run.find(stage);
    if (data == nullptr) continue;
    if (data->lines > 0) h.stage_steps[std::string(stage)] = data->lines;
    h.steps += data->lines;
    double seconds = 0;
    for (const auto& [name, part] : data->seconds) seconds += part.sum;
    if (seconds > 0) h.stage_seconds[std::string(stage)] = seconds;
  }
  if (const auto steps = summary_number(run, "steps")) h.steps = static_cast<int64_t>(*steps);
}

}  // namespace

const Column* column_of(const RunData& run, std::string_view stage, std::string_view metric) {
  const StageData* data = run.find(stage);
  return data == nullptr ? nullptr : data->find(metric);
}

std::string gap_text(double gap) { return gap == 0 ? "exactly 0" : short_number(gap); }

std::optional<std::string> setting(const RunData& run, const HeadlineRow& row) {
  std::vector<std::string_view> set;
  std::copy_if(row.keys.begin(), row.keys.end(), std::back_inserter(set),
               [](std::string_view k) { return !k.empty(); });
  return run.setting(set);
}

std::optional<double> reward_at(const RunData& run, double step) {
  const Column* reward = column_of(run, "rl", "reward");
  if (reward == nullptr) return std::nullopt;
  const auto end = static_cast<size_t>(std::upper_bound(reward->step.begin(), reward->step.end(), step) -
                                       reward->step.begin());
  return mean_of(reward, end - std::min(kRewardWindow, end), end);
}

Headline headline(const RunData& run) {
  Headline h;
  const Column* reward = column_of(run, "rl", "reward");
  const size_t n = reward == nullptr ? 0 : reward->value.size();
  const size_t window = std::min(kRewardWindow, n);
  const auto either = [&](const char* key, std::optional<double> computed) {
    const auto said = summary_number(run, key);
    return said ? said : computed;
  };
  constexpr std::string_view kGap = "train_rollout_logprob_abs_diff";
  h.window = static_cast<int64_t>(window > 0 ? window : kRewardWindow);
  h.reward_first = either("reward_first", mean_of(reward, 0, window));
  h.reward_last = either("reward_last", mean_of(reward, n - window, n));
  h.gap_mean = either("gap_mean", mean_of(column_of(run, "rl", kGap)));
  h.gap_max = either("gap_max", largest_of(column_of(run, "rl", "gap_max")));
  h.contrast_gap_mean = either("contrast_gap_mean", mean_of(column_of(run, "contrast", kGap)));
  h.tokens_per_s = either("tokens_per_s", speed_of(run));
  add_stages(run, h);
  return h;
}

}  // namespace minite::diagnostics
