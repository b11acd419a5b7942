#include "diagnostics/align_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnostics/html.h"
#include "diagnostics/page.h"

namespace minite::diagnostics {
namespace {

std::string place_of(const Cause& cause) {
  return cause.layer < 0 ? cause.module : fmt::format("layer {}, {}", cause.layer, cause.module);
}

std::vector<Card> make_cards(const Comparison& c) {
  const auto executed = std::ranges::count_if(
      c.points, [](const PointResult& p) { return p.status == PointStatus::equal && !p.replayed(); });
  const auto replayed = std::ranges::count_if(
      c.points, [](const PointResult& p) { return p.status == PointStatus::equal && p.replayed(); });
  std::vector<Card> cards = {
      {"Differing bits",
       short_number(static_cast<double>(c.bits)),
       "over all points that both sides hold",
       {}},
      {"Points equal",
       fmt::format("{} of {}", executed, c.points.size()),
       replayed > 0 ? fmt::format("as executed; {} more in replay only", replayed) : "as executed",
       {}},
      {"Rows",
       short_number(static_cast<double>(c.rows.pairs.size())),
       fmt::format("and {} scored tokens in both", c.scored.pairs.size()),
       {}}};
  if (!c.first) return cards;
  cards.push_back({"Cause", c.cause->cause, place_of(*c.cause), {}});
  cards.push_back({"First divergence", c.points[*c.first].name, c.where.row, Card::Size::small});
  return cards;
}

Panel waterfall_panel(const std::vector<WaterfallStep>& steps) {
  LineFigure figure;
  figure.id = "compare-waterfall";
  figure.title = "Relative L2 from the embedding to the log-prob";
  figure.description = "Relative L2 of the difference after each module, in the order of computation.";
  figure.x_label = "module, in order of computation";
  figure.y_label = "relative L2";
  figure.scale = Scale::log;
  figure.window = 1;
  Series executed{"difference", {}, {}}, replayed{"of replayed values", {}, {}, 1, Dash::dashed};
  for (size_t i = 0; i < steps.size(); ++i) {
    for (Series* series : {&executed, &replayed}) {
      series->x.push_back(static_cast<double>(i));
      series->y.push_back((series == &replayed) == steps[i].replayed ? steps[i].relative_l2 : std::nan(""));
    }
  }
  const bool any = std::ranges::any_of(steps, &WaterfallStep::replayed);
  figure.series.push_back(std::move(executed));
  if (any) figure.series.push_back(std::move(replayed));
  return {
      figure.title,
      "Values that are equal bit for bit lie on the row 0. The first step above it is where the sides part.",
      "",
      draw(figure),
      to_csv(figure),
      "waterfall",
      Panel::Width::wide};
}

Panel heat_panel(const std::vector<WaterfallStep>& steps) {
  HeatFigure figure;
  figure.id = "compare-layers";
  figure.title = "Relative L2 by layer and module";
  figure.description = "Relative L2 of the outputs of each module, layers down, modules across.";
  figure.x_label = "module";
  figure.y_label = "layer";
  const auto module_of = [](const WaterfallStep& s) {
    const std::string stem = s.name.substr(0, s.name.rfind(".output"));
    return stem.substr(stem.find('.', std::string_view("layers.").size()) + 1);
  };
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const WaterfallStep& s : steps) {
    if (s.layer < 0) continue;
    add(figure.rows, std::to_string(s.layer));
    add(figure.columns, module_of(s));
  }
  figure.values.assign(figure.rows.size() * figure.columns.size(), std::nan(""));
  for (const WaterfallStep& s : steps) {
    if (s.layer < 0) continue;
    const auto r = std::ranges::find(figure.rows, std::to_string(s.layer)) - figure.rows.begin();
    const auto k = std::ranges::find(figure.columns, module_of(s)) - figure.columns.begin();
    figure.values[static_cast<size_t>(r) * figure.columns.size() + static_cast<size_t>(k)] = s.relative_l2;
  }
  return {figure.title,
          "The tint follows the logarithm; 0 means equal bits.",
          "",
          figure.values.empty() ? "" : draw(figure),
          figure.values.empty() ? "" : to_csv(figure),
          "layers",
          Panel::Width::wide};
}

using Cells = std::vector<std::string>;

/// A table of plain texts; the first cell of a row heads it.
std::string table_html(const std::string& title, const Cells& headers, const std::vector<Cells>& rows) {
  std::string out = fmt::format(
      "<section>\n<h2>{}</h2>\n<div class=\"tablewrap\" tabindex=\"0\"><table class=\"runs\">\n<thead><tr>",
      escape_html(title));
  for (const std::string& name : headers) out += fmt::format("<th scope=\"col\">{}</th>", escape_html(name));
  out += "</tr></thead>\n<tbody>\n";
  for (const Cells& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? fmt::format("<tr><th scope=\"row\">{}</th>", escape_html(row[i]))
                    : fmt::format("<td>{}</td>", escape_html(row[i]));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n</section>\n";
}

std::string points_html(const Comparison& c) {
  std::vector<Cells> rows;
  for (const PointResult& p : c.points) {
    if (p.status == PointStatus::equal) continue;
    const bool meets = p.status != PointStatus::format;
    rows.push_back({p.name, std::string(to_string(p.status)),
                    meets ? fmt::format("{} of {}", p.diff.differing, p.diff.elements)
                          : fmt::format("{} and {}", p.spec_a.empty() ? "none" : p.spec_a,
                                        p.spec_b.empty() ? "none" : p.spec_b),
                    p.diff.numbers ? short_number(p.diff.max_abs) : "-",
                    p.diff.numbers ? short_number(p.diff.relative_l2) : "-",
                    fmt::format("{}, {}", to_string(p.provenance_a), to_string(p.provenance_b))});
  }
  if (rows.empty()) return "";
  return table_html("Points that differ",
                    {"Point", "Status", "Differing", "Max |diff|", "Relative L2", "From"}, rows);
}

std::string slips_html(const Comparison& c) {
  std::vector<Cells> rows;
  for (const SemanticFit& f : c.slips)
    rows.push_back({std::string(f.name), f.fits ? "fits" : "does not fit", f.text, std::to_string(f.tokens),
                    short_number(f.error)});
  if (rows.empty()) return "";
  return table_html("Slips of meaning", {"Slip", "Verdict", "What it would be", "Tokens", "Error"}, rows);
}

std::string also_html(const Comparison& c) {
  std::vector<Cells> rows;
  for (const Cause& cause : c.also) rows.push_back({cause.cause, place_of(cause), cause.evidence});
  if (rows.empty()) return "";
  return table_html("Also differs, whatever the first divergence did", {"Cause", "Where", "Evidence"}, rows);
}

std::string experts_html(const Comparison& c) {
  std::vector<Cells> rows;
  for (const auto& [layer, m] : c.experts) {
    if (m.differing() + m.order + m.absent_a + m.absent_b == 0) continue;
    const auto both = [](int64_t a, int64_t b) { return fmt::format("{} at A, {} at B", a, b); };
    rows.push_back({std::to_string(layer), std::to_string(m.rows), std::to_string(m.other),
                    std::to_string(m.fewer), std::to_string(m.order), both(m.dropped_a, m.dropped_b),
                    both(m.absent_a, m.absent_b)});
  }
  if (rows.empty()) return "";
  return table_html("Dispatch to experts",
                    {"Layer", "Rows", "Other experts", "Fewer experts", "Other order", "Dropped pairs",
                     "Pairs of experts not held"},
                    rows);
}

std::string cause_html(const Comparison& c) {
  if (!c.first) return "";
  std::string text =
      fmt::format("<p class=\"note\"><strong>{}</strong>, {}: {}</p>\n", escape_html(c.cause->cause),
                  escape_html(place_of(*c.cause)), escape_html(c.cause->evidence));
  const auto side = [](const std::string& value, const std::string& scale) {
    return escape_html(scale.empty() ? value : fmt::format("{} ({})", value, scale));
  };
  std::string place = escape_html(c.where.row);
  if (c.where.column >= 0) place += fmt::format(", column {}", c.where.column);
  if (!c.where.a.empty() || !c.where.b.empty()) {
    text += fmt::format("<p class=\"note\">{}{}A {}, B {}</p>\n", place, place.empty() ? "" : ": ",
                        side(c.where.a, c.where.scale_a), side(c.where.b, c.where.scale_b));
  }
  return text;
}

}  // namespace

std::string render_comparison(const Comparison& c) {
  const std::string name = fmt::format("{} and {}", c.a, c.b);
  const std::vector<WaterfallStep> steps = waterfall(c);
  std::string out = open_page("comparison of " + name);
  out += fmt::format(
      "<article>\n<header class=\"run\"><p class=\"eyebrow\">miniTE captures: A {} ({}), B {} ({})</p>"
      "<h1>{}</h1></header>\n{}{}",
      escape_html(c.role_a), c.injected_a.empty() ? "no fault" : escape_html(c.injected_a),
      escape_html(c.role_b), c.injected_b.empty() ? "no fault" : escape_html(c.injected_b), escape_html(name),
      cards_html(make_cards(c)), cause_html(c));
  Section section{"Waterfall", {waterfall_panel(steps), heat_panel(steps)}, {}};
  out += section_html(section, "compare");
  std::vector<Cells> contract;
  for (const io::ContractDifference& d : c.contract) contract.push_back({d.field, d.a, d.b});
  if (!contract.empty()) out += table_html("Contracts", {"Field", "A", "B"}, contract);
  return out + also_html(c) + slips_html(c) + experts_html(c) + points_html(c) + "</article>\n" +
         close_page(fmt::format("the captures {}", name));
}

}  // namespace minite::diagnostics
