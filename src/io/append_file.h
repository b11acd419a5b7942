#pragma once
// A file that grows by whole records.
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace minite::io {

/// Each append is one write(2); when the disk fills up half-way the partial record is taken back, so the file
/// holds whole records only.
class AppendFile {
 public:
  /// Opens or creates.
  explicit AppendFile(const std::filesystem::path& path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  void append(std::string_view record);
  /// Cuts the file to its first `bytes` bytes.
  void truncate(uint64_t bytes);
  /// The last byte of a regular file that is not empty; '\n' for everything else.
  [[nodiscard]] char last_byte() const;
  /// fdatasync.
  void sync();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace minite::io
