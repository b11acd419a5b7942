#pragma once
// A file mapped read-only into memory.
#include <cstddef>
#include <filesystem>
#include <span>

namespace minite::io {

/// Maps all of a regular file. Move-only; spans into bytes() live as long as the object. The file must not be
/// shortened by somebody else meanwhile (the files of miniTE are replaced by rename, never changed in place).
/// Errors: not_found, io, resource (no address space).
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;  // empty for an empty file, which cannot be mapped
};

}  // namespace minite::io
