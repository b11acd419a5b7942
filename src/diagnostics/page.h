#pragma once
// The pieces of HTML that every page of this room is made of.
#include <string>
#include <string_view>

#include "diagnostics/report_figures.h"

namespace minite::diagnostics {

/// From the doctype to the start of <main>; `title` is plain text.
[[nodiscard]] std::string open_page(std::string_view title);
/// The rest, with a footer.
[[nodiscard]] std::string close_page();

/// A section with its figures; downloads are named "`file_prefix`-STEM".
[[nodiscard]] std::string section_html(const Section& section, const std::string& file_prefix);

/// A box that opens: `text` as it is, in a fixed font. Empty text gives nothing.
[[nodiscard]] std::string folded_text(std::string_view title, std::string_view text);

/// CSS of the page around the figures.
extern const std::string_view kReportStyle;

}  // namespace minite::diagnostics
