#pragma once
// Append-only logs of lines (JSON lines).
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace minite::io {

/// Each line is one write(2); when the disk fills up half-way the
/// partial line is taken back, so the log holds whole lines only.
class LineLog {
 public:
  /// Opens or creates. Error: corrupt_data when the last line is unfinished (call keep_lines first).
  explicit LineLog(const std::filesystem::path& path);
  ~LineLog();
  LineLog(LineLog&& other) noexcept;
  LineLog& operator=(LineLog&&) = delete;

  /// `line` without its newline; it must hold none.
  void write_line(std::string_view line);
  /// fdatasync.
  void sync();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Receives a line and its number from 1; false drops the line.
using LinePredicate = std::function<bool(std::string_view line, int64_t number)>;

/// Rewrites a log with the lines that `keep` accepts, atomically; an unfinished last line is dropped without
/// asking. Returns how many lines went. A missing file holds none.
int64_t keep_lines(const std::filesystem::path& path, const LinePredicate& keep);

}  // namespace minite::io
