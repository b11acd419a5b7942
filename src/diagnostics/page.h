#pragma once
// The pieces of HTML that every page of this room is made of.
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/report_figures.h"

namespace minite::diagnostics {

inline constexpr std::string_view kRunFiles =
    "metrics.jsonl, timings.jsonl, summary.json, plans.json and config.yaml";

/// Whether a page runs the scripts that stand in it. It loads nothing in either case.
enum class Scripts : unsigned char { none, own };

/// From the doctype to the start of <main>; `title` is plain text.
[[nodiscard]] std::string open_page(std::string_view title, Scripts scripts = Scripts::none);
/// The rest, with a footer that names what the page was made from.
[[nodiscard]] std::string close_page(std::string_view from = kRunFiles, Scripts scripts = Scripts::none);

/// A headline number.
struct Card {
  std::string title;
  std::string value;
  std::string under;
  enum class Size : unsigned char { large, small } size = Size::large;
};
[[nodiscard]] std::string cards_html(const std::vector<Card>& cards);

/// A section with its figures; downloads are named "`file_prefix`-STEM".
[[nodiscard]] std::string section_html(const Section& section, const std::string& file_prefix);

/// A box that opens: `text` as it is, in a fixed font. Empty text gives nothing.
[[nodiscard]] std::string folded_text(std::string_view title, std::string_view text);

/// CSS of the page around the figures.
extern const std::string_view kReportStyle;

}  // namespace minite::diagnostics
