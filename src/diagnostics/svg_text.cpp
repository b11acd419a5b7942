#include "diagnostics/svg_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnostics/html.h"
#include "diagnostics/svg.h"

namespace minite::diagnostics {

std::string px(double v) {
  std::string text = fmt::format("{:.1f}", v);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view css,
                    std::string_view markup) {
  const std::string with_class = css.empty() ? "" : fmt::format(" class=\"{}\"", css);
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", px(x), px(y), anchor,
                     with_class, markup);
}

std::string open_svg(const std::string& id, double width, double height, const std::string& title,
                     const std::string& description) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-labelledby=\"{}-t {}-d\">\n<title id=\"{}-t\">{}</title>\n<desc id=\"{}-d\">{}</desc>\n",
      px(width), px(height), id, id, id, escape_html(title), id, escape_html(description));
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

size_t smoothing_window(size_t points) {
  constexpr size_t kLeast = 5, kMost = 51, kShort = 30;
  return points < kShort ? 1 : std::clamp(points / 20, kLeast, kMost) | 1;
}

std::vector<double> running_mean(const std::vector<double>& values, size_t window) {
  std::vector<double> means;
  means.reserve(values.size());
  const size_t half = window / 2;
  for (size_t i = 0; i < values.size(); ++i) {
    double sum = 0;
    int64_t count = 0;
    for (size_t j = i - std::min(half, i); j <= std::min(i + half, values.size() - 1); ++j) {
      if (!std::isfinite(values[j])) continue;
      sum += values[j];
      ++count;
    }
    means.push_back(count > 0 ? sum / static_cast<double>(count) : std::nan(""));
  }
  return means;
}

std::string standalone_svg(std::string_view svg) {
  const size_t open = svg.find('>');  // the end of <svg ...>: attribute values hold no '>'
  if (open == std::string_view::npos) return std::string(svg);
  return fmt::format("{}<style>{}</style>{}", svg.substr(0, open + 1), kFigureStyle, svg.substr(open + 1));
}

}  // namespace minite::diagnostics
