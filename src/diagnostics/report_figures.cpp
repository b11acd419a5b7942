#include "diagnostics/report_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "diagnostics/figure_table.h"
#include "diagnostics/figure_text.h"
#include "diagnostics/html.h"
#include "diagnostics/svg.h"

namespace minite::diagnostics {
namespace {

using enum Panel::Width;

std::string series_label(const FigureRow& row, std::string_view stage, std::string_view label) {
  const bool several_stages = !row.stages[1].empty();
  if (!several_stages) return std::string(label);
  return label.empty() ? std::string(stage) : fmt::format("{} {}", stage, label);
}

std::vector<Series> series_of(const FigureRow& row, const RunData& run) {
  std::vector<Series> all;
  for (size_t s = 0; s < row.stages.size(); ++s) {
    const StageData* stage = row.stages[s].empty() ? nullptr : run.find(row.stages[s]);
    for (size_t m = 0; stage != nullptr && m < row.metrics.size(); ++m) {
      const Column* column = row.metrics[m].name.empty() ? nullptr : stage->find(row.metrics[m].name);
      if (column == nullptr) continue;
      Series series;
      series.label = series_label(row, row.stages[s], row.metrics[m].label);
      series.x = column->step;
      series.y = column->value;
      // One stage: a colour a metric. Two stages: a colour a stage, a dash a metric.
      const bool by_stage = !row.stages[1].empty();
      series.color = static_cast<int>(by_stage ? s : m + (row.stages[0] == "sft" ? 2 : 0));
      series.dash = m > 0 ? Dash::dashed : Dash::solid;
      all.push_back(std::move(series));
    }
  }
  return all;
}

Panel make_panel(const FigureRow& row, const std::vector<Series>& series, const std::string& id_prefix) {
  LineFigure figure;
  figure.id = id_prefix + std::string(row.id);
  figure.title = row.title;
  figure.description = std::string(row.about) + ends_of(series);
  figure.x_label = "step";
  figure.y_label = row.y_label;
  figure.scale = row.scale;
  figure.width = row.width == wide ? 980 : 480;
  figure.height = row.width == wide ? 320 : 250;
  figure.series = series;
  Panel panel;
  panel.title = row.title;
  panel.about = std::string(row.about) + smoothing_note(series) + nonfinite_note(series);
  panel.svg = draw(figure);
  panel.csv = to_csv(figure);
  panel.file_stem = row.id;
  panel.width = row.width;
  return panel;
}

std::string missing_sentence(const FigureRow& row) {
  std::string names(row.metrics[0].name);
  if (!row.metrics[1].name.empty()) names += fmt::format(" or {}", row.metrics[1].name);
  return fmt::format("{}: this run did not record {}.", row.title, names);
}

void add_figure(const FigureRow& row, const RunData& run, const std::string& id_prefix, Section& section) {
  const auto remark = row.remark != nullptr ? row.remark(run) : std::nullopt;
  if (remark && remark->figure == Remark::Figure::leave_out) {
    const bool said = std::any_of(section.panels.begin(), section.panels.end(),
                                  [&](const Panel& p) { return p.sentence == remark->sentence; });
    if (said) return;
    Panel panel;
    panel.title = row.title;
    panel.sentence = remark->sentence;
    panel.width = row.width;
    section.panels.push_back(std::move(panel));
    return;
  }
  const auto series = series_of(row, run);
  if (series.empty()) {
    if (row.when == FigureRow::When::expected) section.missing.push_back(missing_sentence(row));
    return;
  }
  section.panels.push_back(make_panel(row, series, id_prefix));
  if (remark) section.panels.back().sentence = remark->sentence;
}

}  // namespace

BarGroup time_group(const std::string& stage, const StageData& data, const std::string& title) {
  double total = 0;
  std::vector<std::pair<std::string, double>> means;
  for (const auto& [name, seconds] : data.seconds) {
    means.emplace_back(name, seconds.sum / static_cast<double>(seconds.steps));
    total += means.back().second;
  }
  std::stable_sort(means.begin(), means.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  BarGroup group{fmt::format("{} ({} s a step)", title, short_number(total)), {}};
  const int color = stage == "sft" ? 2 : stage == "contrast" ? 1 : 0;
  for (auto& [name, mean] : means) {
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    const double percent = total > 0 ? 100 * mean / total : 0;
    group.bars.push_back({label, mean, fmt::format("{} s  ({:.0f}%)", short_number(mean), percent), color});
  }
  return group;
}

namespace {

Section time_section(const RunData& run, const std::string& id_prefix) {
  Section section{"Time", {}, {}};
  BarFigure figure;
  figure.id = id_prefix + "times";
  figure.title = "Where a step's time goes";
  figure.description = "Mean seconds a step of each part, by stage.";
  figure.width = 980;
  for (const char* stage : {"sft", "rl", "contrast"}) {
    const StageData* data = run.find(stage);
    if (data != nullptr && !data->seconds.empty()) figure.groups.push_back(time_group(stage, *data, stage));
  }
  if (figure.groups.empty()) {
    section.missing.emplace_back("Stage times: this run did not record timings.");
    return section;
  }
  section.panels.push_back(
      {figure.title, "Mean over the steps of a stage.", "", draw(figure), to_csv(figure), "times", wide});
  return section;
}

}  // namespace

std::vector<Section> make_sections(const RunData& run, const std::string& id_prefix) {
  std::vector<Section> sections;
  for (const auto& row : figure_table()) {
    if (run.find(row.stages[0]) == nullptr && (row.stages[1].empty() || run.find(row.stages[1]) == nullptr))
      continue;
    if (sections.empty() || sections.back().title != row.section) {
      sections.push_back({std::string(row.section), {}, {}});
    }
    add_figure(row, run, id_prefix, sections.back());
  }
  sections.push_back(time_section(run, id_prefix));
  return sections;
}

}  // namespace minite::diagnostics
