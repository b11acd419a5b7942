#pragma once
// Text for HTML and SVG: escaping, data: links and numbers for people.
#include <string>
#include <string_view>

namespace minite::diagnostics {

/// Safe as element text and as a quoted attribute, in HTML and in XML: & < > " ' become entities; bytes that
/// XML 1.0 forbids (control characters, ill-formed UTF-8) become '?'.
[[nodiscard]] std::string escape_html(std::string_view text);

/// RFC 4648, with padding.
[[nodiscard]] std::string base64(std::string_view bytes);

/// "data:MEDIA_TYPE;base64,..."
[[nodiscard]] std::string data_uri(std::string_view media_type, std::string_view bytes);

/// About three significant digits: "0", "0.0312", "12,345", "1.5e-7", "nan".
[[nodiscard]] std::string short_number(double value);

}  // namespace minite::diagnostics
