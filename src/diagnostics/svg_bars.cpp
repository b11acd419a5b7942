// Bar figures.
#include <fmt/format.h>

#include <algorithm>

#include "diagnostics/html.h"
#include "diagnostics/svg.h"
#include "diagnostics/svg_text.h"

namespace minite::diagnostics {

std::string draw(const BarFigure& figure) {
  constexpr double kBar = 18, kPitch = 27, kTitle = 30, kLeft = 130, kTextRoom = 150;
  double longest = 0, height = 8;
  for (const auto& group : figure.groups) {
    height += kTitle + kPitch * static_cast<double>(group.bars.size()) + 6;
    for (const auto& bar : group.bars) longest = std::max(longest, bar.value);
  }
  std::string out = open_svg(figure.id, figure.width, height, figure.title, figure.description);
  double at = 8;
  for (const auto& group : figure.groups) {
    out += text_at(4, at + 16, "start", "group", escape_html(group.title));
    at += kTitle;
    for (const auto& bar : group.bars) {
      const double full = figure.width - kLeft - kTextRoom;
      const double length = longest > 0 ? std::max(1.5, full * bar.value / longest) : 1.5;
      out += text_at(kLeft - 10, at + 13, "end", "", escape_html(bar.label));
      out += fmt::format("<rect class=\"bar k{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"/>\n",
                         bar.color, px(kLeft), px(at), px(length), px(kBar));
      out += text_at(kLeft + length + 8, at + 13, "start", "value", escape_html(bar.text));
      at += kPitch;
    }
    at += 6;
  }
  return out + "</svg>\n";
}

std::string to_csv(const BarFigure& figure) {
  std::string out = "group,name,value\n";
  for (const auto& group : figure.groups) {
    for (const auto& bar : group.bars) {
      out += fmt::format("{},{},{}\n", csv_cell(group.title), csv_cell(bar.label), bar.value);
    }
  }
  return out;
}

}  // namespace minite::diagnostics
