// Figures of a grid of gaps.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "diagnostics/gap_page.h"
#include "diagnostics/html.h"
#include "diagnostics/svg_text.h"
#include "io/json_file.h"

namespace minite::diagnostics {
namespace {

using nlohmann::json;
using enum Panel::Width;

using Cells = std::vector<const GapCellData*>;

/// Cells with a gap and details, largest mean first, as many as colours tell apart.
Cells drawn_cells(const GapData& gap) {
  Cells cells;
  for (const GapCellData& cell : gap.cells) {
    if (cell.max_abs > 0 && !cell.details.is_null()) cells.push_back(&cell);
  }
  std::ranges::stable_sort(cells, std::greater(), [](const GapCellData* c) { return c->mean_abs; });
  if (cells.size() > kColors) cells.resize(kColors);
  return cells;
}

Panel panel_of(const auto& figure, std::string about, std::string stem, Panel::Width width) {
  return {figure.title, std::move(about), "", draw(figure), to_csv(figure), std::move(stem), width};
}

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

/// One map for each mode of router replay and pair of formats of keys and values.
Section grid_section(const GapData& gap) {
  Section section{"Grid", {}, {}};
  std::vector<std::string> pairs;
  const auto pair_of = [](const GapCellData& c) {
    return fmt::format("learner {}, sampler {}{}", c.learner_kv, c.kv_cache,
                       c.replay == "off" ? "" : "; router replay " + c.replay);
  };
  for (const GapCellData& cell : gap.cells) add_new(pairs, pair_of(cell));
  for (size_t p = 0; p < pairs.size(); ++p) {
    HeatFigure figure;
    figure.id = fmt::format("gap-grid-{}", p);
    figure.title = fmt::format("Mean |gap|, keys and values: {}", pairs[p]);
    figure.description = "Mean absolute difference of log-probs in nats, learners down, samplers across.";
    figure.x_label = "sampler";
    figure.y_label = "learner";
    for (const GapCellData& cell : gap.cells) {
      if (pair_of(cell) != pairs[p]) continue;
      add_new(figure.rows, cell.learner);
      add_new(figure.columns, cell.sampler);
    }
    figure.values.assign(figure.rows.size() * figure.columns.size(), std::nan(""));
    for (const GapCellData& cell : gap.cells) {
      if (pair_of(cell) != pairs[p]) continue;
      const auto r = std::ranges::find(figure.rows, cell.learner) - figure.rows.begin();
      const auto c = std::ranges::find(figure.columns, cell.sampler) - figure.columns.begin();
      figure.values[static_cast<size_t>(r) * figure.columns.size() + static_cast<size_t>(c)] = cell.mean_abs;
    }
    section.panels.push_back(
        panel_of(figure,
                 "Nats a token; the tint follows the logarithm. 0 means that every token "
                 "has the same bits on both sides.",
                 fmt::format("grid-{}", p), figure.columns.size() > 2 ? wide : half));
  }
  return section;
}

/// A line for each cell.
Panel lines(std::string id, std::string title, std::string about, std::string x_label, const Cells& cells,
            const auto& fill) {
  LineFigure figure;
  figure.id = "gap-" + id;
  figure.title = std::move(title);
  figure.description = about;
  figure.x_label = std::move(x_label);
  figure.y_label = "nats";
  figure.width = 980;
  figure.window = 1;
  for (size_t i = 0; i < cells.size(); ++i) {
    Series series;
    series.end_label = std::string(1, static_cast<char>('A' + i));
    series.label = fmt::format("{}  {}", series.end_label, cells[i]->label());
    series.color = static_cast<int>(i);
    series.dash = static_cast<Dash>(i % kDashes);
    fill(cells[i]->details, series);
    figure.series.push_back(std::move(series));
  }
  return panel_of(figure, std::move(about), std::move(id), wide);
}

/// `values` against their rank in percent of their number.
void by_rank(std::vector<double> values, bool falling, Series& series) {
  std::ranges::sort(values);
  if (falling) std::ranges::reverse(values);
  const auto n = static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    series.x.push_back(100 * (static_cast<double>(i) + 0.5) / n);
    series.y.push_back(values[i]);
  }
}

std::vector<double> column(const json& rows, const char* name) {
  std::vector<double> values;
  for (const json& row : rows) values.push_back(row.at(name).get<double>());
  return values;
}

/// A group of bars for each cell; `row` gives the labels, values and texts of its details.
Panel bars(std::string id, std::string title, std::string about, const Cells& cells, const auto& row) {
  BarFigure figure;
  figure.id = "gap-" + id;
  figure.title = std::move(title);
  figure.description = about;
  figure.width = 480;
  for (size_t i = 0; i < cells.size(); ++i) {
    figure.groups.push_back({cells[i]->label(), row(cells[i]->details)});
    for (Bar& bar : figure.groups.back().bars) bar.color = static_cast<int>(i);
  }
  return panel_of(figure, std::move(about), std::move(id), half);
}

Bar share(std::string label, double value) {
  return {std::move(label), value, fmt::format("{} %", short_number(100 * value)), 0};
}

/// The quantiles of both tails, the outermost first.
std::vector<Bar> tail_bars(const json& details) {
  constexpr double kTail = 0.05, kRounding = 1e-9;
  std::vector<Bar> low, high;
  for (const json& q : details.at("quantiles")) {
    const double p = q.at("p").get<double>(), gap = io::logged_number(q, "gap");
    const Bar bar{fmt::format("at {:.4g} %", 100 * p), std::abs(gap), short_number(gap), 0};
    if (p < kTail + kRounding) low.push_back(bar);
    if (p > 1 - kTail - kRounding) high.insert(high.begin(), bar);
  }
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

/// All quantiles with their signs, which bars do not have.
std::string quantile_csv(const Cells& cells) {
  std::string out = "cell,p,gap\n";
  for (const GapCellData* cell : cells) {
    for (const json& q : cell->details.at("quantiles"))
      out += fmt::format("{},{},{}\n", csv_cell(cell->label()), q.at("p").get<double>(),
                         io::logged_number(q, "gap"));
  }
  return out;
}

Section tail_section(const Cells& cells) {
  Section section{"Tails", {}, {}};
  section.panels.push_back(bars("quantiles", "Depth of the tails",
                                "Quantiles of the gap, learner minus sampler, in nats: what a mean hides.",
                                cells, tail_bars));
  section.panels.back().csv = quantile_csv(cells);
  section.panels.push_back(bars("above", "Tokens with a large gap", "Share of tokens with |gap| above.",
                                cells, [](const json& details) {
                                  std::vector<Bar> all;
                                  for (const json& a : details.at("above")) {
                                    all.push_back(share(fmt::format("> {} nat", a.at("nats").get<double>()),
                                                        io::logged_number(a, "share")));
                                  }
                                  return all;
                                }));
  section.panels.push_back(
      bars("concentration", "Who carries the gap",
           "Share of the summed |gap| in the tokens and responses with the largest.", cells,
           [](const json& details) {
             std::vector<Bar> all;
             for (const char* of : {"tokens", "responses"}) {
               for (const json& c : details.at("concentration").at(of)) {
                 all.push_back(share(fmt::format("top {} % {}", 100 * c.at("top").get<double>(), of),
                                     io::logged_number(c, "share")));
               }
             }
             return all;
           }));
  return section;
}

std::vector<Bar> region_bars(const json& details) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kRegions = {{{"neg_neg", "A<0, gap<0"},
                                                                            {"pos_pos", "A>0, gap>0"},
                                                                            {"neg_pos", "A<0, gap>0"},
                                                                            {"pos_neg", "A>0, gap<0"}}};
  std::vector<Bar> all;
  for (const auto& [key, label] : kRegions)
    all.push_back(share(label, details.at("regions").at(key).at("share").get<double>()));
  return all;
}

Section direction_section(const Cells& cells) {
  Section section{"Direction", {}, {}};
  const bool directed = std::ranges::any_of(cells, [](const GapCellData* cell) {
    return std::ranges::any_of(region_bars(cell->details), [](const Bar& bar) { return bar.value > 0; });
  });
  if (directed) {
    section.panels.push_back(bars("regions", "Share of |A| by sign of advantage and gap",
                                  "In the first two regions an update widens the gap of its own token.",
                                  cells, region_bars));
  } else {
    section.missing.emplace_back(
        "Every advantage is 0: all responses to a prompt have the same reward, or there is one a prompt.");
  }
  return section;
}

Section place_section(const Cells& cells) {
  Section section{"Where it lies", {}, {}};
  for (const size_t s : {0, 1}) {
    const auto size = cells.front()->details.at("segments").at(s).at("size").get<int64_t>();
    section.panels.push_back(lines(
        fmt::format("segments-{}", size), fmt::format("Mean gap of segments of {} positions", size),
        "Segments by their mean gap, lowest first; a few deep ones can stand in responses with a small mean.",
        "percent of segments", cells, [s](const json& details, Series& series) {
          by_rank(column(details.at("segments").at(s).at("items"), "mean"), false, series);
        }));
  }
  section.panels.push_back(lines("responses", "Mean |gap| of responses",
                                 "Responses by their mean |gap|, largest first.", "percent of responses",
                                 cells, [](const json& details, Series& series) {
                                   by_rank(column(details.at("responses"), "mean_abs"), true, series);
                                 }));
  return section;
}

}  // namespace

std::vector<Section> gap_sections(const GapData& gap) {
  std::vector<Section> sections = {grid_section(gap)};
  const Cells cells = drawn_cells(gap);
  if (cells.empty()) {
    sections.back().missing.emplace_back(
        "No cell has a finite gap above 0: there is no tail, direction or segment to draw.");
    return sections;
  }
  sections.push_back(tail_section(cells));
  sections.push_back(direction_section(cells));
  sections.push_back(place_section(cells));
  return sections;
}

}  // namespace minite::diagnostics
