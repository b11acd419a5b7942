#include "diagnostics/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "diagnostics/html.h"
#include "diagnostics/svg.h"
#include "minite/version.h"

namespace minite::diagnostics {
namespace {

std::string panel_html(const Panel& panel, const std::string& file_prefix) {
  std::string out =
      fmt::format("<figure{}>\n<figcaption><h3>{}</h3>",
                  panel.width == Panel::Width::wide ? " class=\"wide\"" : "", escape_html(panel.title));
  if (!panel.about.empty()) out += fmt::format("<p class=\"about\">{}</p>", escape_html(panel.about));
  if (!panel.sentence.empty()) out += fmt::format("<p class=\"verdict\">{}</p>", escape_html(panel.sentence));
  out += "</figcaption>\n";
  if (!panel.svg.empty()) {
    const std::string stem = escape_html(fmt::format("{}-{}", file_prefix, panel.file_stem));
    const std::string title = escape_html(panel.title);
    out += fmt::format("<div class=\"draw\">{}</div>\n", panel.svg);
    out += fmt::format(
        "<p class=\"get\"><a href=\"{}\" download=\"{}.svg\" aria-label=\"{}: download the figure as "
        "SVG\">SVG</a>"
        "<a href=\"{}\" download=\"{}.csv\" aria-label=\"{}: download the numbers as CSV\">CSV</a></p>\n",
        data_uri("image/svg+xml", standalone_svg(panel.svg)), stem, title, data_uri("text/csv", panel.csv),
        stem, title);
  }
  return out + "</figure>\n";
}

}  // namespace

std::string open_page(std::string_view title, Scripts scripts) {
  // The policy makes "no network", and "no scripts" where there are none, a promise that the browser keeps.
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "{}img-src data:\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"miniTE {}\">\n<title>{} - miniTE report</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>{}{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<main id=\"main\">\n",
      scripts == Scripts::own ? "script-src 'unsafe-inline'; " : "", MINITE_VERSION_STRING,
      escape_html(title), kFigureStyle, kReportStyle);
}

std::string close_page(std::string_view from, Scripts scripts) {
  return fmt::format(
      "</main>\n<footer>Made by miniTE {} from {}. This page loads nothing{}.</footer>\n</body>\n</html>\n",
      MINITE_VERSION_STRING, escape_html(from), scripts == Scripts::none ? " and runs no scripts" : "");
}

std::string section_html(const Section& section, const std::string& file_prefix) {
  std::string out = fmt::format("<section>\n<h2>{}</h2>\n", escape_html(section.title));
  if (!section.panels.empty()) {
    out += "<div class=\"panels\">\n";
    for (const Panel& panel : section.panels) out += panel_html(panel, file_prefix);
    out += "</div>\n";
  }
  if (!section.missing.empty()) {
    out += fmt::format("<p class=\"missing\">{}</p>\n",
                       escape_html(fmt::format("{}", fmt::join(section.missing, " "))));
  }
  return out + "</section>\n";
}

std::string cards_html(const std::vector<Card>& cards) {
  std::string out = "<dl class=\"cards\">\n";
  for (const Card& card : cards) {
    out += fmt::format("<div><dt>{}</dt><dd{}>{}</dd>", escape_html(card.title),
                       card.size == Card::Size::small ? " class=\"small\"" : "", escape_html(card.value));
    if (!card.under.empty()) out += fmt::format("<dd class=\"under\">{}</dd>", escape_html(card.under));
    out += "</div>\n";
  }
  return out + "</dl>\n";
}

std::string folded_text(std::string_view title, std::string_view text) {
  if (text.empty()) return "";
  return fmt::format("<details>\n<summary>{}</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
                     escape_html(title), escape_html(text));
}

}  // namespace minite::diagnostics
