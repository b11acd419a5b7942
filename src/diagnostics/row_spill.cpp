#include "diagnostics/row_spill.h"

#include "core/fail.h"

namespace minite::diagnostics {
namespace {

constexpr auto kMode = std::ios::binary | std::ios::in | std::ios::out | std::ios::trunc;

}  // namespace

RowSpill::RowSpill(std::filesystem::path path) : path_(std::move(path)), file_(path_, kMode) {
  if (!file_) fail(ErrorCode::io, "cannot create {}; check the folder and its permissions", path_.string());
}

void RowSpill::append(SpilledTensor& tensor, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  file_.seekp(static_cast<std::streamoff>(end_));
  file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file_) {
    fail(ErrorCode::io,
         "cannot write to {} after {} bytes; is the disk full? Store less with --points, "
         "--layers or --max-tokens",
         path_.string(), end_);
  }
  if (!tensor.pieces.empty() && tensor.pieces.back().offset + tensor.pieces.back().bytes == end_) {
    tensor.pieces.back().bytes += bytes.size();
  } else {
    tensor.pieces.push_back({end_, bytes.size()});
  }
  end_ += bytes.size();
  tensor.bytes += bytes.size();
}

std::vector<std::byte> RowSpill::read(const SpilledTensor& tensor) {
  std::vector<std::byte> all(tensor.bytes);
  uint64_t at = 0;
  for (const SpilledTensor::Piece& piece : tensor.pieces) {
    file_.seekg(static_cast<std::streamoff>(piece.offset));
    file_.read(reinterpret_cast<char*>(all.data() + at), static_cast<std::streamsize>(piece.bytes));
    at += piece.bytes;
  }
  if (!file_) fail(ErrorCode::io, "cannot read {} back", path_.string());
  return all;
}

void RowSpill::remove() {
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace minite::diagnostics
