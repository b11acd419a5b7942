#pragma once
// Pieces of text shared by the kinds of figures.
#include <string>
#include <string_view>

namespace minite::diagnostics {

/// A pixel with one decimal at most.
[[nodiscard]] std::string px(double v);

/// A <text> element; `markup` is already escaped, `css` may be empty.
[[nodiscard]] std::string text_at(double x, double y, std::string_view anchor, std::string_view css,
                                  std::string_view markup);

/// The opening tag with title and description for screen readers.
[[nodiscard]] std::string open_svg(const std::string& id, double width, double height,
                                   const std::string& title, const std::string& description);

/// Quoted as RFC 4180 where needed.
[[nodiscard]] std::string csv_cell(const std::string& text);

}  // namespace minite::diagnostics
