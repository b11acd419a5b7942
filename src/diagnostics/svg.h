#pragma once
// Figures as SVG text: no scripts, no fonts, colours from CSS variables so that one drawing serves light,
// dark and print.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnostics/axis.h"

namespace minite::diagnostics {

/// Patterns that tell lines apart without colour.
enum class Dash : unsigned char { solid, dashed, dotted, dash_dot, long_dash, dash_dot_dot };
inline constexpr int kDashes = 6;
inline constexpr int kColors = 6;  ///< of the palette of kFigureStyle

/// Points joined by a line; x rises. A value that is not finite breaks the line.
struct Series {
  std::string label;  ///< short; stands in the legend and at the right end of the line
  std::vector<double> x;
  std::vector<double> y;
  int color = 0;  ///< 0 .. kColors - 1
  Dash dash = Dash::solid;
  std::string end_label = "";  ///< at the right end instead of `label`, when not empty
};

struct LineFigure {
  std::string id;  ///< unique in the page; letters, digits and '-'
  std::string title;
  std::string description;  ///< for screen readers, one or two sentences
  std::string x_label;
  std::string y_label;
  Scale scale = Scale::linear;  ///< of y; a log figure gives 0 a row of its own
  double width = 960;
  double height = 320;  ///< with one row of legend; further rows make the figure higher
  std::vector<Series> series;
  size_t window = 0;  ///< of the running mean, odd; 0: smoothing_window() of each series
};

struct Bar {
  std::string label;
  double value = 0;  ///< >= 0
  std::string text;  ///< stands at the end of the bar
  int color = 0;
};
struct BarGroup {
  std::string title;
  std::vector<Bar> bars;
};
struct BarFigure {
  std::string id;
  std::string title;
  std::string description;
  double width = 960;
  std::vector<BarGroup> groups;
};

/// Numbers >= 0 by row and column, tinted by their logarithm; 0 has no tint, NaN neither.
struct HeatFigure {
  std::string id;
  std::string title;
  std::string description;
  std::string x_label, y_label;  ///< what columns and rows are
  double width = 480;            ///< more when the columns need it
  std::vector<std::string> columns, rows;
  std::vector<double> values;  ///< [rows * columns]
};

/// Width of the running mean that the line shows: 1 for short series, then a twentieth of the points, odd, at
/// most 51.
[[nodiscard]] size_t smoothing_window(size_t points);

/// Mean of the finite values among the `window` (odd) nearest, fewer at both ends; NaN where there is none.
[[nodiscard]] std::vector<double> running_mean(const std::vector<double>& values, size_t window);

/// The <svg> element. Raw points are faint (left out among many series), the running mean is the line.
[[nodiscard]] std::string draw(const LineFigure& figure);
[[nodiscard]] std::string draw(const BarFigure& figure);
[[nodiscard]] std::string draw(const HeatFigure& figure);

/// The numbers behind a figure, with a header line; all digits; an empty cell where a series has no value.
[[nodiscard]] std::string to_csv(const LineFigure& figure);
[[nodiscard]] std::string to_csv(const BarFigure& figure);
[[nodiscard]] std::string to_csv(const HeatFigure& figure);

/// A short piece of a line as it looks in the figures, for a legend in the page.
[[nodiscard]] std::string draw_swatch(int color, Dash dash);

/// CSS of the figures, for the page that embeds them.
extern const std::string_view kFigureStyle;
/// `svg` as a file of its own: with kFigureStyle inside.
[[nodiscard]] std::string standalone_svg(std::string_view svg);

}  // namespace minite::diagnostics
