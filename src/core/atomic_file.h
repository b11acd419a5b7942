#pragma once
// A file that appears whole or not at all: bytes go to a temporary file beside the target, commit() makes
// them durable and renames. Until then a file that was there before stays as it was.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace minite {

class AtomicFile {
 public:
  /// Opens a temporary file in the folder of `target`; a symbolic link is followed. Errors (io): missing or
  /// unwritable folder; (invalid_argument): the target exists and is not a regular file.
  explicit AtomicFile(const std::filesystem::path& target);
  /// Removes the temporary file unless commit() succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends; `bytes` is only read. Errors (io): disk full and the like, with the number of bytes written.
  void write(std::string_view bytes);
  /// Writes at `offset` from the start, leaving the place of write() alone; gaps read as zeros.
  void write_at(uint64_t offset, std::string_view bytes);
  /// Flushes to the device and renames onto the target. Call once; write() is not allowed afterwards.
  void commit();
  [[nodiscard]] uint64_t written() const { return written_; }

 private:
  [[noreturn]] void fail_write(const char* step, int error);
  std::filesystem::path target_;
  std::string temporary_;
  int descriptor_ = -1;
  uint64_t written_ = 0;
};

/// AtomicFile in one call: `bytes` become the whole content of `target`.
void write_file_atomically(const std::filesystem::path& target, std::string_view bytes);

}  // namespace minite
