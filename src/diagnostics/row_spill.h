#pragma once
// Rows of many tensors that arrive interleaved, kept in one temporary file and read back tensor by tensor.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

namespace minite::diagnostics {

/// Where the bytes of one tensor lie, in order of arrival.
struct SpilledTensor {
  struct Piece {
    uint64_t offset, bytes;
  };
  std::vector<Piece> pieces;
  uint64_t bytes = 0;
};

class RowSpill {
 public:
  /// Makes `path`, which the caller removes with its folder. Error: io.
  explicit RowSpill(std::filesystem::path path);
  /// Adds `bytes` to `tensor`. Error: io (disk full).
  void append(SpilledTensor& tensor, std::span<const std::byte> bytes);
  /// All bytes of `tensor`. Error: io.
  [[nodiscard]] std::vector<std::byte> read(const SpilledTensor& tensor);
  /// Closes and removes the file.
  void remove();

 private:
  std::filesystem::path path_;
  std::fstream file_;
  uint64_t end_ = 0;
};

}  // namespace minite::diagnostics
