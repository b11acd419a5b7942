#include "core/text_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/fail.h"

namespace minite {

std::string read_text_file(const std::string& path, int64_t max_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) fail(ErrorCode::not_found, "{}: no such file", path);
  if (error) fail(ErrorCode::io, "{}: {}", path, error.message());
  require(status.type() == fs::file_type::regular, "{}: not a regular file", path);
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  if (error) fail(ErrorCode::io, "{}: {}", path, error.message());
  require(size <= max_bytes, "{}: {} bytes, more than the {} that such a file may have", path, size,
          max_bytes);

  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::io, "{}: cannot be opened for reading", path);
  std::string text(static_cast<size_t>(size), '\0');
  file.read(text.data(), size);
  if (file.gcount() != size) fail(ErrorCode::io, "{}: read {} of {} bytes", path, file.gcount(), size);
  return text;
}

}  // namespace minite
