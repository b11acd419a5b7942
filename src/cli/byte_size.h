#pragma once
// Numbers of bytes as people write them.
#include <cstdint>
#include <string>
#include <string_view>

namespace minite::cli {

/// "500MB", "2GiB", "1.5GB", "4096". Error: invalid_argument naming `option`.
[[nodiscard]] int64_t parse_byte_size(std::string_view option, const std::string& text);
/// "1.23 GB"; decimal units.
[[nodiscard]] std::string byte_text(int64_t bytes);

}  // namespace minite::cli
