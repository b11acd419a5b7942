// Heat maps: a table of numbers with a tint that follows their logarithm.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnostics/html.h"
#include "diagnostics/svg.h"
#include "diagnostics/svg_text.h"

namespace minite::diagnostics {
namespace {

constexpr double kLeft = 196, kTop = 62, kCellWidth = 112, kCellHeight = 46, kLine = 15;
constexpr size_t kLineLength = 15;  ///< characters of a column's name that fit

/// A name in pieces that fit a column, cut behind '_' or '+' where possible.
std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < name.size();) {
    size_t length = std::min(kLineLength, name.size() - begin);
    if (begin + length < name.size()) {
      const size_t cut = name.substr(begin, length).find_last_of("_+ ");
      if (cut != std::string::npos && cut > 0) length = cut + 1;
    }
    lines.push_back(name.substr(begin, length));
    begin += length;
  }
  return lines;
}

/// How strong the tint of a value is: 0.06 for the smallest above 0, 0.52 for the largest, on a log scale.
/// Text keeps a contrast of 4.5:1 up to there.
double tint(double value, double low, double high) {
  constexpr double kFaint = 0.06, kStrong = 0.52;
  if (!(value > 0)) return 0;
  if (!std::isfinite(value)) return kStrong;
  return high > low ? kFaint + (kStrong - kFaint) * std::log(value / low) / std::log(high / low) : kStrong;
}

}  // namespace

std::string draw(const HeatFigure& figure) {
  double low = HUGE_VAL, high = 0;
  for (const double v : figure.values) {
    if (!(v > 0) || !std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  size_t header = 1;
  for (const auto& name : figure.columns) header = std::max(header, lines_of(name).size());
  const double top = kTop + kLine * static_cast<double>(header);
  const double width =
      std::max(figure.width, kLeft + kCellWidth * static_cast<double>(figure.columns.size()) + 8);
  const double height = top + kCellHeight * static_cast<double>(figure.rows.size()) + 8;
  std::string out = open_svg(figure.id, width, height, figure.title, figure.description);
  out += text_at(kLeft, 18, "start", "", escape_html(figure.x_label));
  out += text_at(kLeft - 12, top - 10, "end", "", escape_html(figure.y_label));
  for (size_t c = 0; c < figure.columns.size(); ++c) {
    const auto lines = lines_of(figure.columns[c]);
    for (size_t i = 0; i < lines.size(); ++i) {
      out += text_at(kLeft + kCellWidth * (static_cast<double>(c) + 0.5), 42 + kLine * static_cast<double>(i),
                     "middle", "value", escape_html(lines[i]));
    }
  }
  for (size_t r = 0; r < figure.rows.size(); ++r) {
    const double y = top + kCellHeight * static_cast<double>(r);
    out += text_at(kLeft - 12, y + 28, "end", "value", escape_html(figure.rows[r]));
    for (size_t c = 0; c < figure.columns.size(); ++c) {
      const double x = kLeft + kCellWidth * static_cast<double>(c);
      const double value = figure.values[r * figure.columns.size() + c];
      out += fmt::format(
          "<rect class=\"heat\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" "
          "fill-opacity=\"{:.3f}\"/>\n",
          px(x + 2), px(y + 2), px(kCellWidth - 4), px(kCellHeight - 4), tint(value, low, high));
      out += text_at(x + kCellWidth / 2, y + 28, "middle", value == 0 ? "group" : "value",
                     escape_html(short_number(value)));
    }
  }
  return out + "</svg>\n";
}

std::string to_csv(const HeatFigure& figure) {
  std::string out = fmt::format("{},{},value\n", csv_cell(figure.y_label), csv_cell(figure.x_label));
  for (size_t r = 0; r < figure.rows.size(); ++r) {
    for (size_t c = 0; c < figure.columns.size(); ++c) {
      out += fmt::format("{},{},{}\n", csv_cell(figure.rows[r]), csv_cell(figure.columns[c]),
                         figure.values[r * figure.columns.size() + c]);
    }
  }
  return out;
}

}  // namespace minite::diagnostics
