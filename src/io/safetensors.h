#pragma once
// The safetensors container (github.com/huggingface/safetensors, "Format"): u64 little-endian header length
// N, N bytes of JSON, then the tensors back to back.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/atomic_file.h"
#include "io/mapped_file.h"

namespace minite::io {

/// Element type of a stored tensor; the order indexes kStoredTypes.
enum class StoredType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0
};

struct StoredTypeRow {
  StoredType type;
  std::string_view name;  ///< as in the file
  int64_t bytes;          ///< of one element
};
inline constexpr std::array<StoredTypeRow, 16> kStoredTypes = {{
    {StoredType::f64, "F64", 8},
    {StoredType::f32, "F32", 4},
    {StoredType::f16, "F16", 2},
    {StoredType::bf16, "BF16", 2},
    {StoredType::i64, "I64", 8},
    {StoredType::i32, "I32", 4},
    {StoredType::i16, "I16", 2},
    {StoredType::i8, "I8", 1},
    {StoredType::u64, "U64", 8},
    {StoredType::u32, "U32", 4},
    {StoredType::u16, "U16", 2},
    {StoredType::u8, "U8", 1},
    {StoredType::boolean, "BOOL", 1},
    {StoredType::f8_e4m3, "F8_E4M3", 1},
    {StoredType::f8_e5m2, "F8_E5M2", 1},
    {StoredType::f8_e8m0, "F8_E8M0", 1},
}};

[[nodiscard]] constexpr const StoredTypeRow& stored_type(StoredType type) {
  return kStoredTypes[static_cast<size_t>(type)];
}
[[nodiscard]] std::optional<StoredType> stored_type_named(std::string_view name);

/// A tensor in a file or in memory. `bytes` is row-major, little endian, and belongs to somebody else (the
/// SafetensorsFile, or the caller of write_safetensors). Tensors from a file may start at any byte: copy or
/// use memcpy, unless is_aligned().
struct TensorInfo {
  StoredType type = StoredType::f32;
  std::vector<int64_t> shape;  ///< empty: a scalar of one element
  std::span<const std::byte> bytes;

  /// Number of elements.
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(bytes.size()) / stored_type(type).bytes; }
  /// Whether bytes.data() may be read as a pointer to elements.
  [[nodiscard]] bool is_aligned() const;
};

/// Sorted by name, so that iteration is deterministic.
using TensorMap = std::map<std::string, TensorInfo>;
using Metadata = std::map<std::string, std::string>;

struct SafetensorsContent {
  TensorMap tensors;
  Metadata metadata;  ///< the "__metadata__" object
};

/// Parses and checks a file in memory; spans point into `file`. `name` stands for the file in errors. Every
/// error is corrupt_data: cut short ("... is cut short: 12 bytes, header promises 96"), a header that is too
/// long, too deep, not JSON or repeats a name, an unknown dtype, a shape whose product overflows or differs
/// from the byte range, and ranges that overlap, leave holes or end before the file does (as the reference
/// reader).
[[nodiscard]] SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::string& name);

/// A mapped safetensors file; tensors() live as long as the object.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  [[nodiscard]] const TensorMap& tensors() const { return content_.tensors; }
  [[nodiscard]] const Metadata& metadata() const { return content_.metadata; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The tensor `tensor_name`. Error: not_found, with the nearest name.
  [[nodiscard]] const TensorInfo& at(const std::string& tensor_name) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  SafetensorsContent content_;
};

/// Writes a file atomically. The bytes depend on the arguments only: header keys are sorted by name; data is
/// ordered by falling element size, then name, so that every tensor is aligned to its element; the header is
/// padded with spaces to a multiple of 8. Errors: invalid_argument (shape and bytes disagree, a reserved
/// name, a name that is not UTF-8), io.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const Metadata& metadata = {});

/// A tensor to be produced later: no bytes yet.
struct TensorShape {
  StoredType type = StoredType::f32;
  std::vector<int64_t> shape;
};
/// A file whose tensors are put one by one in any order, each once, so that one tensor at a time is in
/// memory. The same bytes as write_safetensors() of all of them.
class SafetensorsWriter {
 public:
  /// Errors: as write_safetensors().
  SafetensorsWriter(const std::filesystem::path& path, const std::map<std::string, TensorShape>& shapes,
                    const Metadata& metadata = {});
  /// Writes the tensor `name`. Errors: internal when it was not announced or was put before; invalid_argument
  /// when the size is not that of its shape; io.
  void put(const std::string& name, std::span<const std::byte> bytes);
  /// Writes the next bytes of the tensor `name`, so that a large one need not be in memory. Errors: as put(),
  /// invalid_argument when there are more bytes than its shape has.
  void put_next(const std::string& name, std::span<const std::byte> bytes);
  /// Makes the file appear. Error: internal when a tensor was not put.
  void commit();

 private:
  struct Place {
    TensorShape shape;
    uint64_t begin = 0;
    int64_t bytes = 0;
    int64_t written = 0;
    bool done = false;
  };
  std::map<std::string, Place> places_;
  AtomicFile file_;
};

/// Returns the bytes of the tensor `name`; the span must live until the next call.
using TensorSource = std::function<std::span<const std::byte>(const std::string& name)>;

/// As above for tensors that do not fit into memory together: `source` is called once a tensor, in file
/// order.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorShape>& shapes,
                       const TensorSource& source, const Metadata& metadata = {});

}  // namespace minite::io
