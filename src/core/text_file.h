#pragma once
// Small text files (rules, configurations), read whole.
#include <cstdint>
#include <string>

namespace minite {

/// The bytes of the regular file `path`. Errors: not_found when it does not exist, invalid_argument when it
/// is not a regular file or larger than `max_bytes`, io when reading fails. Messages hold the path.
[[nodiscard]] std::string read_text_file(const std::string& path, int64_t max_bytes = int64_t{16} << 20);

}  // namespace minite
