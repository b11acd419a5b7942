#include "diagnostics/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "diagnostics/html.h"
#include "support/xml_check.h"

namespace minite::diagnostics {
namespace {
using minite::test_support::XmlCheck;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++n;
  return n;
}

std::string labels(const std::vector<Tick>& ticks) {
  std::string text;
  for (const auto& t : ticks) text += (text.empty() ? "" : " ") + t.label;
  return text;
}

LineFigure figure_of(std::vector<double> y, Scale scale = Scale::linear) {
  LineFigure figure;
  figure.id = "f";
  figure.title = "T";
  figure.x_label = "step";
  figure.y_label = "y";
  figure.scale = scale;
  Series series{"s", {}, std::move(y)};
  for (size_t i = 0; i < series.y.size(); ++i) series.x.push_back(static_cast<double>(i));
  figure.series = {series};
  return figure;
}

TEST(Html, Escapes) {
  EXPECT_EQ(escape_html("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(escape_html(std::string("a\0b\x1b[2J\xff\n", 9)), "a?b?[2J?\n");
  EXPECT_EQ(escape_html("\xc3\xa9"), "\xc3\xa9");
}

TEST(Html, Base64IsRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Html, NumbersForPeople) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(-0.0), "0");
  EXPECT_EQ(short_number(0.87412), "0.874");
  EXPECT_EQ(short_number(12345.4), "12,345");
  EXPECT_EQ(short_number(-1234567), "-1,234,567");
  EXPECT_EQ(short_number(1.5e-7), "1.5e-7");
  EXPECT_EQ(short_number(2e20), "2e20");
  EXPECT_EQ(short_number(std::nan("")), "nan");
}

TEST(Axis, LinearTicksAreNice) {
  EXPECT_EQ(labels(linear_ticks(0, 1, 5, TickRange::cover)), "0.0 0.2 0.4 0.6 0.8 1.0");
  EXPECT_EQ(labels(linear_ticks(0.03, 0.91, 5, TickRange::cover)), "0.0 0.2 0.4 0.6 0.8 1.0");
  EXPECT_EQ(labels(linear_ticks(1, 300, 6, TickRange::inside)), "50 100 150 200 250 300");
  EXPECT_EQ(labels(linear_ticks(-3, 4, 4, TickRange::cover)), "-4 -2 0 2 4");
  EXPECT_EQ(labels(linear_ticks(0, 2.2e-5, 4, TickRange::cover)), "0 1e-5 2e-5 3e-5");
}

TEST(Axis, DegenerateRangesStillHaveTicks) {
  constexpr double kMax = std::numeric_limits<double>::max();
  for (const double v : {0.0, 1.0, -7.0, 1e-300, 5e-324, 1e300, kMax}) {
    EXPECT_GE(linear_ticks(v, v, 5, TickRange::cover).size(), 2u) << v;
  }
  for (const double v : {1.0, 0.3, 1e-300, 5e-324, kMax}) EXPECT_GE(log_ticks(v, v, 5).size(), 2u) << v;
}

TEST(Axis, LogTicks) {
  EXPECT_EQ(labels(log_ticks(2e-6, 0.5, 6)), "10^-6 10^-5 10^-4 10^-3 10^-2 10^-1 1");
  EXPECT_EQ(labels(log_ticks(0.15, 1.3, 5)), "0.1 0.2 0.5 1 2");
  EXPECT_LE(log_ticks(1e-300, 1e300, 5).size(), 7u);
}

TEST(Axis, LogAxisGivesZeroItsOwnPixel) {
  const Axis axis{Scale::log, 1e-3, 1, 100, 0, 130};
  EXPECT_DOUBLE_EQ(axis.pixel(1e-3), 100);
  EXPECT_DOUBLE_EQ(axis.pixel(1), 0);
  EXPECT_DOUBLE_EQ(axis.pixel(0), 130);
  EXPECT_FALSE(axis.shows(-1));
}

TEST(RunningMean, IsCentredAndSkipsWhatIsNotFinite) {
  EXPECT_EQ(running_mean({1, 2, 6}, 3), (std::vector<double>{1.5, 3, 4}));
  const auto means = running_mean({1, std::nan(""), 3}, 3);
  EXPECT_EQ(means[1], 2);
  EXPECT_TRUE(std::isnan(running_mean({std::nan("")}, 1)[0]));
  EXPECT_EQ(smoothing_window(20), 1u);
  EXPECT_EQ(smoothing_window(300), 15u);
  EXPECT_EQ(smoothing_window(100000), 51u);
}

TEST(Svg, IsWellFormedWithHostileText) {
  LineFigure figure = figure_of({1, 2, 3});
  figure.title = "<script>\"&'";
  figure.description = "a > b";
  figure.y_label = "]]>";
  figure.series[0].label = "</svg>";
  figure.series.push_back({"b<", {0, 1}, {5, 4}, 1, Dash::dashed});
  for (const auto& svg : {draw(figure), standalone_svg(draw(figure))}) {
    EXPECT_EQ(XmlCheck::fault(svg), "");
    EXPECT_EQ(svg.find("<script"), std::string::npos);
  }
}

TEST(Svg, ExtremeValuesAreWellFormed) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kMax = std::numeric_limits<double>::max();
  const std::vector<std::vector<double>> inputs = {{},
                                                   {0},
                                                   {1},
                                                   {0, 0, 0},
                                                   {std::nan("")},
                                                   {kInf, -kInf},
                                                   {1, std::nan(""), 3},
                                                   {-1, 1},
                                                   {1e-300, 1e300},
                                                   {5e-324},
                                                   {kMax, -kMax},
                                                   {0, 1e-9, 1}};
  for (const auto& y : inputs) {
    for (const Scale scale : {Scale::linear, Scale::log}) {
      const std::string svg = draw(figure_of(y, scale));
      EXPECT_EQ(XmlCheck::fault(svg), "");
      for (const char* bad : {"nan", "inf\"", "\"inf", " inf", "Minf"}) {
        const size_t path = svg.find("<path class=\"line");
        const std::string drawn =
            path == std::string::npos ? "" : svg.substr(path, svg.find("/>", path) - path);
        EXPECT_EQ(drawn.find(bad), std::string::npos) << drawn;
      }
    }
  }
}

TEST(Svg, NonFiniteValuesBreakTheLine) {
  const std::string svg = draw(figure_of({1, 2, std::nan(""), 3, 4}));
  const size_t begin = svg.find("<path class=\"line\" d=\"");
  const std::string path = svg.substr(begin, svg.find("/>", begin) - begin);
  EXPECT_EQ(count(path, "M"), 2u) << path;
}

TEST(Svg, LongRunsStaySmall) {
  std::vector<double> y;
  for (int i = 0; i < 20000; ++i) y.push_back(std::sin(i * 0.1));
  const std::string svg = draw(figure_of(y));
  const size_t begin = svg.find("<path class=\"line\"");
  EXPECT_LT(svg.find("/>", begin) - begin, 90000u);
}

TEST(Svg, LegendAndLabelsForSeveralSeries) {
  LineFigure figure = figure_of({1, 2, 3});
  EXPECT_EQ(count(draw(figure), ">s<"), 0u);  // one line: the title says what it is
  figure.series.push_back({"other", {0, 1, 2}, {1, 2, 3}, 1});
  const std::string svg = draw(figure);
  EXPECT_EQ(count(svg, ">other<"), 2u);
  EXPECT_EQ(count(svg, "class=\"k1\""), 3u);  // line, label, legend
}

TEST(Svg, IsAccessible) {
  const std::string svg = draw(figure_of({1, 2}));
  EXPECT_NE(svg.find("role=\"img\" aria-labelledby=\"f-t f-d\""), std::string::npos);
  EXPECT_NE(svg.find("<title id=\"f-t\">T</title>"), std::string::npos);
}

TEST(Csv, HoldsEveryDigit) {
  LineFigure figure = figure_of({0.1, 1.0 / 3});
  figure.series[0].label = "a,\"b\"";
  figure.series.push_back({"c", {1, 2}, {5, 6}});
  EXPECT_EQ(to_csv(figure), "step,\"a,\"\"b\"\"\",c\n0,0.1,\n1,0.3333333333333333,5\n2,,6\n");
}

TEST(Bars, AreWellFormed) {
  BarFigure figure;
  figure.id = "b";
  figure.groups = {{"rl <1>", {{"rollout", 2, "2 s", 0}, {"none", 0, "0 s", 0}}}, {"empty", {}}};
  EXPECT_EQ(XmlCheck::fault(draw(figure)), "");
  EXPECT_EQ(to_csv(figure), "group,name,value\nrl <1>,rollout,2\nrl <1>,none,0\n");
}

}  // namespace
}  // namespace minite::diagnostics
