#pragma once
// The GGUF container, version 3 (github.com/ggml-org/ggml, docs/gguf.md): little-endian key-value pairs,
// tensor names and shapes, then the tensors, each from a multiple of `general.alignment`. Version 2 has the
// same layout and is read too.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/atomic_file.h"
#include "io/mapped_file.h"

namespace minite::io {

/// Element types of tensors that miniTE reads; the numbers are those of the file.
enum class GgufType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 8,
  q6_k = 14,
  bf16 = 30,
  mxfp4 = 39,
  nvfp4 = 40
};

struct GgufTypeRow {
  GgufType type;
  std::string_view name;
  int64_t block;  ///< elements of a block along a row
  int64_t bytes;  ///< of a block
};
[[nodiscard]] const GgufTypeRow& gguf_type(GgufType type);

/// Types of values in the key-value part; the numbers are those of the file.
enum class GgufValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
[[nodiscard]] std::string_view to_string(GgufValueType type);

/// A value as it lies in the file: one element, or `count` of an array. Strings are u64 length and bytes.
struct GgufValue {
  GgufValueType type = GgufValueType::u8;  ///< of an element; never array
  bool array = false;
  uint64_t count = 1;
  std::span<const std::byte> bytes;
};

/// A tensor in a file. `shape` has the contiguous dimension last (the reverse of the file's order); `bytes`
/// may start at any address.
struct GgufTensor {
  GgufType type = GgufType::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  /// Elements of a row, and their number (product of the other dimensions).
  [[nodiscard]] int64_t cols() const { return shape.back(); }
  [[nodiscard]] int64_t rows() const;
};

struct GgufContent {
  std::map<std::string, GgufValue> values;
  std::map<std::string, GgufTensor> tensors;
  std::vector<std::string> value_order, tensor_order;  ///< as in the file
};

/// Parses and checks a file in memory; spans point into `file`. `name` stands for the file in errors.
/// Errors: corrupt_data (cut short, counts or lengths beyond the file, names that repeat or are not UTF-8, a
/// boolean other than 0 and 1, rows that are not whole blocks, offsets that are not aligned, overlap or end
/// beyond the file), unsupported (another version, an element type that is unknown or was removed, arrays in
/// arrays).
[[nodiscard]] GgufContent parse_gguf(std::span<const std::byte> file, const std::string& name);

/// Whether `path` is a regular file that begins as a GGUF file does.
[[nodiscard]] bool begins_as_gguf(const std::filesystem::path& path);

/// A mapped GGUF file; values and tensors live as long as the object.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);
  [[nodiscard]] const GgufContent& content() const { return content_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// The tensor `name`. Error: not_found, with the nearest name.
  [[nodiscard]] const GgufTensor& tensor(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& key) const { return content_.values.contains(key); }

  // Values by key. Errors: not_found when the key is absent, corrupt_data when its value has another type.
  [[nodiscard]] int64_t integer(const std::string& key) const;
  [[nodiscard]] double number(const std::string& key) const;  ///< a float or an integer
  [[nodiscard]] bool boolean(const std::string& key) const;
  [[nodiscard]] std::string_view text(const std::string& key) const;
  [[nodiscard]] std::vector<std::string_view> texts(const std::string& key) const;
  [[nodiscard]] std::vector<int64_t> integers(const std::string& key) const;
  [[nodiscard]] std::vector<double> numbers(const std::string& key) const;

 private:
  [[nodiscard]] const GgufValue& value(const std::string& key, bool array) const;
  [[noreturn]] void wrong_type(const std::string& key, std::string_view wanted) const;

  std::filesystem::path path_;
  MappedFile file_;
  GgufContent content_;
};

/// Key-value pairs of a file to be written, in the order of the calls. Errors: invalid_argument when a key
/// repeats or is empty.
class GgufValues {
 public:
  void put_integer(const std::string& key, GgufValueType type, int64_t value);
  void put_number(const std::string& key, float value);
  void put_boolean(const std::string& key, bool value);
  void put_text(const std::string& key, std::string_view value);
  void put_texts(const std::string& key, std::span<const std::string_view> values);
  void put_integers(const std::string& key, GgufValueType type, std::span<const int64_t> values);
  void put_numbers(const std::string& key, std::span<const float> values);
  /// A value as another file holds it.
  void put(const std::string& key, const GgufValue& value);

  [[nodiscard]] uint64_t count() const { return keys_.size(); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] uint64_t alignment() const { return alignment_; }

 private:
  void begin(const std::string& key, GgufValueType type, bool array, uint64_t count);
  std::map<std::string, bool> keys_;
  std::string bytes_;
  uint64_t alignment_ = 32;
};

/// A tensor to be produced later: no bytes yet. `shape` as in GgufTensor.
struct GgufTensorShape {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<int64_t> shape;
};

/// Writes a file whose tensors are put one by one, each once, in any order. The bytes depend on values,
/// shapes and tensors alone. The file appears whole at commit().
class GgufWriter {
 public:
  /// Errors: invalid_argument (a name that repeats, is longer than 63 bytes or not UTF-8; no dimension or
  /// more than four; rows that are not whole blocks), io.
  GgufWriter(const std::filesystem::path& path, const GgufValues& values,
             const std::vector<GgufTensorShape>& tensors);
  /// Errors: internal when `name` was not announced or was put before, invalid_argument when the size is not
  /// that of its shape, io.
  void put(const std::string& name, std::span<const std::byte> bytes);
  /// Error: internal when a tensor was not put.
  void commit();

 private:
  struct Place {
    uint64_t begin = 0, bytes = 0;
    bool done = false;
  };
  std::map<std::string, Place> places_;
  uint64_t end_ = 0;  ///< of the last tensor, with its padding
  AtomicFile file_;
};

}  // namespace minite::io
