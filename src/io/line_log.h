#pragma once
// Append-only logs of lines (JSON lines).
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "io/append_file.h"

namespace minite::io {

/// Holds whole lines only, see AppendFile.
class LineLog {
 public:
  /// Opens or creates. Error: corrupt_data when the last line is unfinished (call keep_lines first).
  explicit LineLog(const std::filesystem::path& path);

  /// `line` without its newline; it must hold none.
  void write_line(std::string_view line);
  /// fdatasync.
  void sync() { file_.sync(); }

 private:
  AppendFile file_;
};

/// Receives a line and its number from 1; false drops the line.
using LinePredicate = std::function<bool(std::string_view line, int64_t number)>;

/// Rewrites a log with the lines that `keep` accepts, atomically; an unfinished last line is dropped without
/// asking. Returns how many lines went. A missing file holds none.
int64_t keep_lines(const std::filesystem::path& path, const LinePredicate& keep);

}  // namespace minite::io
