#include "diagnostics/compare_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "diagnostics/figure_text.h"
#include "diagnostics/html.h"

namespace minite::diagnostics {
namespace {

using enum Panel::Width;
constexpr double kNoRest = std::numeric_limits<double>::quiet_NaN();

/// One figure. Runs that stay at `rest` have nothing to show, and are named instead of drawn when all do.
struct Row {
  std::string_view id, section, title, y_label, about;
  std::string_view stage;
  std::string_view metric;  // empty: the throughput
  Scale scale = Scale::linear;
  Panel::Width width = half;
  double rest = kNoRest;
  enum class When : unsigned char { expected, switched_on } when = When::expected;
};

constexpr std::string_view kLearning = "Learning", kGap = "Learner-sampler gap", kCorrections = "Corrections",
                           kUpdate = "Updates", kSpeed = "Speed", kWarmUp = "Supervised warm-up";
constexpr std::string_view kMeanGap = "train_rollout_logprob_abs_diff";
using enum Row::When;

constexpr Row kRows[] = {
    {"reward", kLearning, "Reward", "mean reward", "Mean reward of the responses sampled in a step.", "rl",
     "reward", Scale::linear, wide},
    {"entropy", kLearning, "Entropy", "nats per token",
     "Mean entropy of the learner's next-token distribution.", "rl", "entropy_loss"},
    {"length", kLearning, "Response length", "tokens", "Mean number of tokens in a response.", "rl",
     "response_length_mean"},
    {"gap", kGap, "Mean gap", "|learner - sampler|, nats",
     "Mean over the tokens of a step of the difference between learner's and sampler's log-probability.",
     "rl", kMeanGap, Scale::log, wide, 0},
    {"gap-max", kGap, "Largest gap", "|learner - sampler|, nats", "Largest difference of a token.", "rl",
     "gap_max", Scale::log, half, 0},
    {"gap-kl", kGap, "KL(sampler || learner)", "nats", "k3 estimate from the sampled tokens.", "rl",
     "mismatch_k3_kl", Scale::log, half, 0},
    {"gap-contrast", kGap, "Mean gap of the contrast", "|learner - sampler|, nats",
     "The same in the contrast stage, which has recipes of its own.", "contrast", kMeanGap, Scale::log, half,
     0, switched_on},
    {"router", kGap, "Router mismatch", "fraction of rows",
     "Rows (a token in a layer) whose experts differ between learner and sampler.", "rl", "router_mismatch",
     Scale::linear, half, 0, switched_on},
    {"tis", kCorrections, "Truncated importance weights", "fraction of tokens",
     "Tokens whose sampler correction the threshold changed.", "rl", "tis_clipfrac", Scale::linear, half, 0},
    {"ess", kCorrections, "Effective sample size", "fraction of tokens",
     "What the correction weights leave of the batch: 1 when all weights are equal.", "rl",
     "rollout_is_eff_sample_size", Scale::linear, half, 1, switched_on},
    {"gate", kCorrections, "TRIAGE gate", "mean weight", "Mean weight of the gate over valid tokens.", "rl",
     "triage_gate_weight_mean", Scale::linear, half, 1, switched_on},
    {"repair", kCorrections, "TRIAGE repair", "fraction of segments",
     "Segments that the repair term pulls on.", "rl", "triage_repair_active_segment_fraction", Scale::linear,
     half, 0, switched_on},
    {"rejected", kCorrections, "Rejected tokens", "fraction of tokens", "Tokens that rollout_rs rejects.",
     "rl", "rollout_rs_masked_fraction", Scale::linear, half, 0, switched_on},
    {"clip", kUpdate, "Clip fraction", "fraction of tokens", "Tokens whose policy ratio was clipped.", "rl",
     "pg_clipfrac", Scale::linear, half, 0},
    {"ppo-kl", kUpdate, "KL of the update", "nats",
     "Mean of l_old - l: how far the policy moved while it used a rollout.", "rl", "ppo_kl", Scale::linear,
     half, 0},
    {"kl-loss", kUpdate, "KL to the reference", "nats", "The penalty against the policy before RL.", "rl",
     "kl_loss", Scale::linear, half, 0, switched_on},
    {"grad-norm", kUpdate, "Gradient norm", "norm before clipping", "Norm of the whole gradient.", "rl",
     "grad_norm", Scale::log, half},
    {"load", kUpdate, "Busiest expert", "load over the mean", "Tokens of the busiest expert over the mean.",
     "rl", "expert_load_max", Scale::linear, half, kNoRest, switched_on},
    {"speed", kSpeed, "Throughput", "tokens/s",
     "Tokens that were sampled or learned in a step divided by its seconds. Runs that shared a machine "
     "slowed each "
     "other down.",
     "rl", "", Scale::linear, wide},
    {"sft-loss", kWarmUp, "Loss", "nats per token", "Cross-entropy of the worked solutions.", "sft", "loss"},
    {"sft-grad-norm", kWarmUp, "Gradient norm", "norm before clipping", "Norm of the whole gradient.", "sft",
     "grad_norm", Scale::log},
};

const Column* column_of(const Row& row, const Compared& c) {
  const StageData* stage = c.run->find(row.stage);
  if (stage == nullptr) return nullptr;
  const Column* column = row.metric.empty() ? &stage->throughput : stage->find(row.metric);
  return column == nullptr || column->value.empty() ? nullptr : column;
}

bool rests(const Row& row, const Column& column) {
  return std::all_of(column.value.begin(), column.value.end(), [&](double v) { return v == row.rest; });
}

/// Which runs recorded the metric, and which of them stayed at rest.
struct Sorted {
  std::vector<Series> series;
  std::vector<std::string> resting, moving, absent;
};

Sorted sort_runs(const Row& row, const std::vector<Compared>& runs) {
  Sorted sorted;
  for (const Compared& c : runs) {
    const Column* column = column_of(row, c);
    if (column == nullptr) {
      if (c.run->find(row.stage) != nullptr) sorted.absent.push_back(c.label());
      continue;
    }
    (rests(row, *column) ? sorted.resting : sorted.moving).push_back(c.label());
    sorted.series.push_back({c.label(), column->step, column->value, c.color, c.dash, c.letter});
  }
  return sorted;
}

// Without colour and without the figure: who stayed at rest.
std::string resting_sentence(const Row& row, const Sorted& sorted) {
  if (sorted.resting.empty()) return "";
  const bool all = sorted.moving.empty() && sorted.absent.empty() && sorted.resting.size() > 1;
  return fmt::format("exactly {} at every step of {}.", row.rest,
                     all ? "every run" : list_of(sorted.resting));
}

std::string absent_note(const Sorted& sorted) {
  return sorted.absent.empty() ? "" : fmt::format(" Not recorded by {}.", list_of(sorted.absent));
}

Panel draw_row(const Row& row, const Sorted& sorted) {
  size_t longest = 0;
  for (const Series& s : sorted.series) longest = std::max(longest, s.y.size());
  LineFigure figure;
  figure.id = fmt::format("all-{}", row.id);
  figure.title = row.title;
  figure.window = smoothing_window(longest);  // one for all runs, so that their lines compare
  figure.description = std::string(row.about) + ends_of(sorted.series, figure.window);
  figure.x_label = "step";
  figure.y_label = row.y_label;
  figure.scale = row.scale;
  figure.width = row.width == wide ? 980 : 480;
  // The labels at the right need 15 pixels each.
  figure.height =
      std::max(row.width == wide ? 320.0 : 250.0, 105 + 15.0 * static_cast<double>(sorted.series.size()));
  figure.series = sorted.series;
  Panel panel;
  panel.title = row.title;
  panel.about = std::string(row.about) + smoothing_note(sorted.series, figure.window) +
                nonfinite_note(sorted.series) + absent_note(sorted);
  panel.sentence = resting_sentence(row, sorted);
  if (!panel.sentence.empty()) panel.sentence.front() = 'E';
  panel.svg = draw(figure);
  panel.csv = to_csv(figure);
  panel.file_stem = row.id;
  panel.width = row.width;
  return panel;
}

void add_row(const Row& row, const std::vector<Compared>& runs, Section& section) {
  const Sorted sorted = sort_runs(row, runs);
  if (sorted.series.empty()) {
    if (row.when == expected && !sorted.absent.empty())
      section.missing.push_back(
          fmt::format("{}: no run recorded {}.", row.title, row.metric.empty() ? "timings" : row.metric));
    return;
  }
  if (sorted.moving.empty()) {
    section.missing.push_back(fmt::format("{}: {}", row.title, resting_sentence(row, sorted)));
    return;
  }
  section.panels.push_back(draw_row(row, sorted));
}

/// Where the time of a step goes, a group of bars a run.
void add_times(const std::vector<Compared>& runs, Section& section) {
  BarFigure figure;
  figure.id = "all-times";
  figure.title = "Where the time of an RL step goes";
  figure.description = "Mean seconds of each part of an RL step, by run.";
  figure.width = 980;
  for (const Compared& c : runs) {
    const StageData* rl = c.run->find("rl");
    if (rl == nullptr || rl->seconds.empty()) continue;
    figure.groups.push_back(time_group("rl", *rl, c.label()));
    for (Bar& bar : figure.groups.back().bars) bar.color = c.color;
  }
  if (figure.groups.empty()) return;
  section.panels.push_back(
      {figure.title, "Mean over the RL steps.", "", draw(figure), to_csv(figure), "times", wide});
}

}  // namespace

std::vector<Section> compare_sections(const std::vector<Compared>& runs) {
  std::vector<Section> sections;
  for (const Row& row : kRows) {
    if (sections.empty() || sections.back().title != row.section)
      sections.push_back({std::string(row.section), {}, {}});
    add_row(row, runs, sections.back());
    if (row.section == kSpeed) add_times(runs, sections.back());
  }
  std::erase_if(sections, [](const Section& s) { return s.panels.empty() && s.missing.empty(); });
  return sections;
}

}  // namespace minite::diagnostics
