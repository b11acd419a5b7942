// Line figures.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "diagnostics/html.h"
#include "diagnostics/svg.h"
#include "diagnostics/svg_text.h"

namespace minite::diagnostics {
namespace {

constexpr double kGlyph = 7.5;      // mean width of a letter at 12.5 px
constexpr double kLabelGap = 15.0;  // least distance between two labels at the right
constexpr double kZeroRow = 34.0;   // height of the row of 0 on a log axis
constexpr double kLegend = 24.0;
constexpr size_t kFewPoints = 40;  // up to here every point gets a dot on the line
constexpr size_t kCrowd = 2000;
constexpr double kMaxLabel = 215.0;
constexpr size_t kManySeries = 4;  // above, the raw points of one hide the lines of others
constexpr std::array<std::string_view, kDashes> kLineCss = {
    "line", "line dashed", "line dotted", "line dashdot", "line longdash", "line dashdotdot"};

std::string_view line_css(Dash dash) { return kLineCss[static_cast<size_t>(dash)]; }

struct Frame {
  double left, right, top, bottom;
};

// The last value at the right end of a line, or nothing.
std::optional<size_t> last_finite(const std::vector<double>& y) {
  for (size_t i = y.size(); i > 0; --i) {
    if (std::isfinite(y[i - 1])) return i - 1;
  }
  return std::nullopt;
}

struct Drawn {
  const Series* series;
  std::vector<double> line;  // what the line shows: the running mean
  size_t window;
  std::string name;  // at the right end; empty when the title says it all
};

// One line needs no name, unless it was given one.
bool names_lines(const LineFigure& figure) {
  return figure.series.size() > 1 || (!figure.series.empty() && !figure.series.front().end_label.empty());
}

std::vector<Drawn> lines_of(const LineFigure& figure) {
  std::vector<Drawn> drawn;
  for (const Series& s : figure.series) {
    const size_t window = figure.window > 0 ? figure.window : smoothing_window(s.y.size());
    const std::string& name = s.end_label.empty() ? s.label : s.end_label;
    drawn.push_back({&s, running_mean(s.y, window), window, names_lines(figure) ? name : ""});
  }
  return drawn;
}

std::string end_label(const Drawn& d) {
  const auto last = last_finite(d.line);
  return last ? fmt::format("{} {}", d.name, short_number(d.line[*last])) : d.name;
}

/// Where the entries of the legend stand; rows are filled from the left.
struct Legend {
  std::vector<std::pair<double, int>> places;  // x, row
  int rows = 0;
};

constexpr double kSwatch = 33.0;

Legend legend_of(const LineFigure& figure, double left) {
  Legend legend;
  if (!names_lines(figure)) return legend;
  double at = left;
  legend.rows = 1;
  for (const Series& s : figure.series) {
    const double width = kSwatch + kGlyph * static_cast<double>(s.label.size());
    if (at > left && at + width > figure.width - 4) {
      at = left;
      ++legend.rows;
    }
    legend.places.emplace_back(at, legend.rows - 1);
    at += width + 22;
  }
  return legend;
}

constexpr double kLeft = 58.0;

Frame frame_of(const LineFigure& figure, const std::vector<Drawn>& drawn, const Legend& legend) {
  double widest = 0;
  for (const auto& d : drawn) widest = std::max(widest, kGlyph * static_cast<double>(end_label(d).size()));
  const double more = kLegend * std::max(0, legend.rows - 1);
  return {kLeft, figure.width - std::min(kMaxLabel, widest + 18), 30 + kLegend * legend.rows,
          figure.height + more - 42};
}

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  [[nodiscard]] bool empty() const { return low > high; }
};

struct YAxis {
  Axis axis;
  std::vector<Tick> ticks;
};

YAxis y_axis(const LineFigure& figure, const Frame& frame) {
  Extent all, positive;
  for (const auto& s : figure.series) {
    for (const double v : s.y) {
      if (drawable(v)) all.add(v);
      if (drawable(v) && v > 0) positive.add(v);
    }
  }
  if (all.empty()) all.add(0);
  YAxis y;
  y.axis.zero_px = frame.bottom;
  y.axis.low_px = frame.bottom;
  y.axis.high_px = frame.top;
  if (figure.scale == Scale::log && !positive.empty()) {
    const bool zero_row = all.low <= 0;
    y.axis.scale = Scale::log;
    y.axis.low_px = frame.bottom - (zero_row ? kZeroRow : 0);
    y.ticks = log_ticks(positive.low, positive.high, 5);
  } else {
    // From 0 where that costs little of the height: most of these quantities are ratios and sizes.
    if (all.low > 0 && all.low < 0.5 * all.high) all.low = 0;
    y.ticks = linear_ticks(all.low, all.high, 5, TickRange::cover);
  }
  y.axis.low = y.ticks.front().value;
  y.axis.high = y.ticks.back().value;
  return y;
}

Axis x_axis(const LineFigure& figure, const Frame& frame) {
  Extent all;
  for (const auto& s : figure.series) {
    for (const double v : s.x) all.add(v);
  }
  if (all.empty()) all.add(0);
  if (all.low == all.high) all.high = all.low + 1;
  return {Scale::linear, all.low, all.high, frame.left, frame.right, 0};
}

// "10^-3" as 10 with a raised -3.
std::string label_markup(const std::string& label) {
  const size_t caret = label.find('^');
  if (caret == std::string::npos) return escape_html(label);
  return fmt::format("{}<tspan dy=\"-4\" font-size=\"9.5\">{}</tspan>", label.substr(0, caret),
                     label.substr(caret + 1));
}

std::string path_of(std::string_view css, std::string_view d) {
  return fmt::format("<path class=\"{}\" d=\"{}\"/>\n", css, d);
}

std::string draw_axes(const LineFigure& figure, const Frame& f, const Axis& x, const YAxis& y) {
  std::string out, grid;
  for (const Tick& tick : y.ticks) {
    const double at = y.axis.pixel(tick.value);
    grid += fmt::format("M{} {}H{}", px(f.left), px(at), px(f.right));
    out += text_at(f.left - 9, at + 4, "end", "", label_markup(tick.label));
  }
  out = path_of("grid", grid) + out;
  if (y.axis.scale == Scale::log && y.axis.low_px < f.bottom) {
    out += path_of("zero", fmt::format("M{} {}H{}", px(f.left), px(f.bottom - kZeroRow / 2), px(f.right)));
    out += text_at(f.left - 9, f.bottom + 4, "end", "", "0");
  }
  std::string marks;
  const int count = static_cast<int>((f.right - f.left) / 70);
  for (const Tick& tick : linear_ticks(x.low, x.high, std::max(2, count), TickRange::inside)) {
    if (tick.value != std::floor(tick.value)) continue;  // steps are whole
    marks += fmt::format("M{} {}v5", px(x.pixel(tick.value)), px(f.bottom));
    out += text_at(x.pixel(tick.value), f.bottom + 19, "middle", "", short_number(tick.value));
  }
  out += path_of("axis", fmt::format("M{} {}H{}{}", px(f.left), px(f.bottom), px(f.right), marks));
  out += text_at((f.left + f.right) / 2, f.bottom + 36, "middle", "", escape_html(figure.x_label));
  out += text_at(4, 14, "start", "", escape_html(figure.y_label));
  return out;
}

struct Pixel {
  double x, y;
};

// Appends the points of one pixel column: all when few, else first, lowest, highest and last in their order,
// which is the same picture with a bounded size.
void flush_column(std::vector<Pixel>& column, std::string& d, bool& pen_down) {
  if (column.size() > 4) {
    const auto by_y = [](const Pixel& a, const Pixel& b) { return a.y < b.y; };
    auto [low, high] = std::minmax_element(column.begin(), column.end(), by_y);
    if (high < low) std::swap(low, high);
    column = {column.front(), *low, *high, column.back()};
  }
  for (const Pixel& p : column) {
    d += fmt::format("{}{} {}", pen_down ? 'L' : 'M', px(p.x), px(p.y));
    pen_down = true;
  }
  column.clear();
}

// One "M" for each unbroken run of drawable points.
std::string line_path(const Series& s, const std::vector<double>& values, const Axis& x, const Axis& y) {
  std::string d;
  std::vector<Pixel> column;
  bool pen_down = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool shown = y.shows(values[i]);
    const Pixel p{x.pixel(s.x[i]), shown ? y.pixel(values[i]) : 0};
    if (!shown || (!column.empty() && std::floor(column.back().x) != std::floor(p.x))) {
      flush_column(column, d, pen_down);
    }
    if (shown) column.push_back(p);
    pen_down = pen_down && shown;
  }
  flush_column(column, d, pen_down);
  return d;
}

// Round caps turn a line of no length into a dot. In a crowd, one dot a cell of 2 x 2 pixels is enough.
std::string dots_path(const Series& s, const Axis& x, const Axis& y) {
  const bool crowded = s.y.size() > kCrowd;
  std::set<std::pair<int, int>> taken;
  std::string d;
  for (size_t i = 0; i < s.y.size(); ++i) {
    if (!y.shows(s.y[i])) continue;
    const Pixel p{x.pixel(s.x[i]), y.pixel(s.y[i])};
    const std::pair cell(static_cast<int>(p.x / 2), static_cast<int>(p.y / 2));
    if (!crowded || taken.insert(cell).second) d += fmt::format("M{} {}h0", px(p.x), px(p.y));
  }
  return d;
}

std::string draw_series(const Drawn& d, const Axis& x, const Axis& y, bool crowd) {
  const Series& s = *d.series;
  std::string out;
  if (!crowd && (d.window > 1 || s.y.size() <= kFewPoints)) {
    if (const auto dots = dots_path(s, x, y); !dots.empty()) out += path_of("raw", dots);
  }
  const auto line = line_path(s, d.line, x, y);
  if (!line.empty()) out += path_of(line_css(s.dash), line);
  if (const auto last = last_finite(d.line); last && y.shows(d.line[*last])) {
    out += fmt::format("<circle class=\"end\" cx=\"{}\" cy=\"{}\" r=\"3.5\"/>\n", px(x.pixel(s.x[*last])),
                       px(y.pixel(d.line[*last])));
  }
  return fmt::format("<g class=\"k{}\">\n{}</g>\n", s.color, out);
}

// Moves labels apart: sorted by height, pushed down where too near, then the block up if it left the frame.
void spread(std::vector<std::pair<double, const Drawn*>>& labels, const Frame& f) {
  std::stable_sort(labels.begin(), labels.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 1; i < labels.size(); ++i) {
    labels[i].first = std::max(labels[i].first, labels[i - 1].first + kLabelGap);
  }
  double limit = f.bottom;
  for (size_t i = labels.size(); i > 0; --i, limit -= kLabelGap) {
    labels[i - 1].first = std::min(labels[i - 1].first, limit);
  }
}

std::string draw_labels(const std::vector<Drawn>& drawn, const Frame& f, const Axis& y) {
  std::vector<std::pair<double, const Drawn*>> labels;
  for (const auto& d : drawn) {
    const auto last = last_finite(d.line);
    if (last && y.shows(d.line[*last])) labels.emplace_back(y.pixel(d.line[*last]), &d);
  }
  spread(labels, f);
  std::string out;
  for (const auto& [at, d] : labels) {
    const auto last = last_finite(d->line);
    out += fmt::format(
        "<g class=\"k{}\"><text class=\"label\" x=\"{}\" y=\"{}\">{}<tspan class=\"value\" "
        "dx=\"{}\">{}</tspan>"
        "</text></g>\n",
        d->series->color, px(f.right + 10), px(at + 4), escape_html(d->name), d->name.empty() ? 0 : 5,
        short_number(d->line[*last]));
  }
  return out;
}

std::string draw_legend(const std::vector<Drawn>& drawn, const Legend& legend) {
  std::string out;
  for (size_t i = 0; i < legend.places.size(); ++i) {
    const Series& s = *drawn[i].series;
    const auto [at, row] = legend.places[i];
    const double y = 38 + kLegend * row;
    out += fmt::format("<g class=\"k{}\">{}", s.color,
                       path_of(line_css(s.dash), fmt::format("M{} {}h26", px(at), px(y - 4))));
    out += text_at(at + kSwatch, y, "start", "", escape_html(s.label)) + "</g>\n";
  }
  return out;
}

}  // namespace

std::string draw(const LineFigure& figure) {
  const auto drawn = lines_of(figure);
  const Legend legend = legend_of(figure, kLeft);
  const Frame frame = frame_of(figure, drawn, legend);
  const YAxis y = y_axis(figure, frame);
  const Axis x = x_axis(figure, frame);
  std::string out = open_svg(figure.id, figure.width, frame.bottom + 42, figure.title, figure.description);
  out += draw_axes(figure, frame, x, y);
  for (const auto& d : drawn) out += draw_series(d, x, y.axis, drawn.size() > kManySeries);
  out += draw_labels(drawn, frame, y.axis) + draw_legend(drawn, legend);
  return out + "</svg>\n";
}

std::string draw_swatch(int color, Dash dash) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig swatch\" viewBox=\"0 0 44 10\" "
      "aria-hidden=\"true\"><g class=\"k{}\">{}</g></svg>",
      color, path_of(line_css(dash), "M3 5h38"));
}

std::string to_csv(const LineFigure& figure) {
  std::map<double, std::vector<std::string>> rows;
  std::string out = csv_cell(figure.x_label);
  for (size_t k = 0; k < figure.series.size(); ++k) {
    const Series& s = figure.series[k];
    out += "," + csv_cell(s.label);
    for (size_t i = 0; i < s.x.size(); ++i) {
      auto& cells = rows[s.x[i]];
      cells.resize(figure.series.size());
      cells[k] = fmt::format("{}", s.y[i]);  // fmt prints the shortest text that reads back the same
    }
  }
  out += '\n';
  for (const auto& [x, cells] : rows) out += fmt::format("{},{}\n", x, fmt::join(cells, ","));
  return out;
}

}  // namespace minite::diagnostics
