#include "rl/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "io/json_file.h"
#include "minite/version.h"

namespace minite::rl {
namespace {

using nlohmann::json;

/// Values of metric `name` of one stage, in order; null (a non-finite value) is left out.
std::vector<double> column(const std::vector<json>& lines, const char* stage, const char* name) {
  std::vector<double> values;
  for (const json& line : lines) {
    if (line.at("stage") != stage) continue;
    const auto it = line.find(name);
    if (it != line.end() && it->is_number()) values.push_back(it->get<double>());
  }
  return values;
}

double mean(const std::vector<double>& x, size_t begin, size_t end) {
  double total = 0;
  for (size_t i = begin; i < end; ++i) total += x[i];
  return total / static_cast<double>(end - begin);
}

constexpr size_t kWindow = 20;

void add_rl(const std::vector<json>& metrics, json& summary) {
  const std::vector<double> reward = column(metrics, "rl", "reward");
  if (reward.empty()) return;
  const size_t n = std::min(kWindow, reward.size());
  summary["reward_first"] = mean(reward, 0, n);
  summary["reward_last"] = mean(reward, reward.size() - n, reward.size());
  const std::vector<double> gap = column(metrics, "rl", "train_rollout_logprob_abs_diff");
  const std::vector<double> gap_max = column(metrics, "rl", "gap_max");
  if (!gap.empty()) summary["gap_mean"] = mean(gap, 0, gap.size());
  if (!gap_max.empty()) summary["gap_max"] = *std::max_element(gap_max.begin(), gap_max.end());
}

double sum(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

void add_times(const std::vector<json>& timings, const std::vector<json>& metrics, json& summary) {
  json stages = json::object();
  for (const json& line : timings) {
    const auto stage = line.at("stage").get<std::string>();
    double seconds = stages.value(stage, 0.0);
    for (const auto& item : line.at("seconds").items()) seconds += item.value().get<double>();
    stages[stage] = seconds;
  }
  summary["stage_seconds"] = stages;
  const double rl_seconds = stages.value("rl", 0.0);
  if (rl_seconds > 0) summary["tokens_per_s"] = sum(column(metrics, "rl", "tokens")) / rl_seconds;
}

/// What log-probs of the two sides mean. Gaps of runs are comparable when this is equal.
json contract(const RunConfig& c) {
  return {{"temperature", c.rl.temperature},
          {"top_k", c.rl.top_k},
          {"top_p", c.rl.top_p},
          {"logprobs", "full softmax of logits / temperature"},
          {"learner_recipe", c.learner_recipe},
          {"sampler_recipe", c.sampler_recipe},
          {"kv_cache", kv_format(c.kv_cache).name},
          {"learner_kv", kv_format(c.learner_kv).name},
          {"rollout_staleness", c.rl.rollout_staleness},
          {"router_replay", c.rl.router_replay}};
}

}  // namespace

json summarize(const std::filesystem::path& run, const SummaryInput& input) {
  const std::vector<json> metrics = io::read_json_lines(run / "metrics.jsonl").rows;
  json summary = {{"version", MINITE_VERSION_STRING},
                  {"preset", input.config.preset},
                  {"seed", input.config.seed},
                  {"backend", input.backend},
                  {"policy", input.config.sampler_policy},
                  {"learner_recipe", input.config.learner_recipe},
                  {"sampler_recipe", input.config.sampler_recipe},
                  {"kv_cache", kv_format(input.config.kv_cache).name},
                  {"learner_kv", kv_format(input.config.learner_kv).name},
                  {"contract", contract(input.config)},
                  {"checkpoint", input.final_checkpoint},
                  {"steps", metrics.size()}};
  add_rl(metrics, summary);
  const std::vector<double> contrast = column(metrics, "contrast", "train_rollout_logprob_abs_diff");
  if (!contrast.empty()) {
    summary["contrast_gap_mean"] = mean(contrast, 0, contrast.size());
    summary["contrast_learner_recipe"] = input.config.contrast.learner_recipe;
    summary["contrast_sampler_recipe"] = input.config.contrast.sampler_recipe;
  }
  add_times(io::read_json_lines(run / "timings.jsonl").rows, metrics, summary);
  return summary;
}

}  // namespace minite::rl
