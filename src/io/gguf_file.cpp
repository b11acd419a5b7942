// Values and tensors of a mapped GGUF file by name.
#include <cstring>
#include <fstream>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/gguf.h"

namespace minite::io {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Element i of an integer type, or nothing when the value holds no integers or one beyond int64.
std::optional<int64_t> integer_at(const GgufValue& value, uint64_t i) {
  const std::byte* p = value.bytes.data();
  switch (value.type) {
    case GgufValueType::u8:
      return load<uint8_t>(p + i);
    case GgufValueType::i8:
      return load<int8_t>(p + i);
    case GgufValueType::u16:
      return load<uint16_t>(p + 2 * i);
    case GgufValueType::i16:
      return load<int16_t>(p + 2 * i);
    case GgufValueType::u32:
      return load<uint32_t>(p + 4 * i);
    case GgufValueType::i32:
      return load<int32_t>(p + 4 * i);
    case GgufValueType::u64: {
      const auto x = load<uint64_t>(p + 8 * i);
      if (x > INT64_MAX) return std::nullopt;
      return static_cast<int64_t>(x);
    }
    case GgufValueType::i64:
      return load<int64_t>(p + 8 * i);
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(const GgufValue& value, uint64_t i) {
  if (value.type == GgufValueType::f32) return static_cast<double>(load<float>(value.bytes.data() + 4 * i));
  if (value.type == GgufValueType::f64) return load<double>(value.bytes.data() + 8 * i);
  if (const auto whole = integer_at(value, i)) return static_cast<double>(*whole);
  return std::nullopt;
}

}  // namespace

bool begins_as_gguf(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  file.read(magic, sizeof magic);
  return std::string_view(magic, 4) == "GGUF";
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : path_(path), file_(path), content_(parse_gguf(file_.bytes(), path.string())) {}

const GgufTensor& GgufFile::tensor(const std::string& name) const {
  const auto it = content_.tensors.find(name);
  if (it != content_.tensors.end()) return it->second;
  const std::vector<std::string_view> names(content_.tensor_order.begin(), content_.tensor_order.end());
  fail(ErrorCode::not_found, "{} has no tensor \"{}\"{}", path_.string(), printable(name),
       did_you_mean(name, names));
}

const GgufValue& GgufFile::value(const std::string& key, bool array) const {
  const auto it = content_.values.find(key);
  if (it == content_.values.end()) {
    const std::vector<std::string_view> keys(content_.value_order.begin(), content_.value_order.end());
    fail(ErrorCode::not_found, "{} has no value \"{}\"{}", path_.string(), printable(key),
         did_you_mean(key, keys));
  }
  if (it->second.array != array) wrong_type(key, array ? "an array" : "one value");
  return it->second;
}

void GgufFile::wrong_type(const std::string& key, std::string_view wanted) const {
  const GgufValue& found = content_.values.at(key);
  fail(ErrorCode::corrupt_data, "{}: value \"{}\" is {}{}, expected {}", path_.string(), printable(key),
       found.array ? "an array of " : "", to_string(found.type), wanted);
}

int64_t GgufFile::integer(const std::string& key) const {
  if (const auto x = integer_at(value(key, false), 0)) return *x;
  wrong_type(key, "an integer below 2^63");
}

double GgufFile::number(const std::string& key) const {
  if (const auto x = number_at(value(key, false), 0)) return *x;
  wrong_type(key, "a number");
}

bool GgufFile::boolean(const std::string& key) const {
  const GgufValue& v = value(key, false);
  if (v.type != GgufValueType::boolean) wrong_type(key, "a boolean");
  return v.bytes[0] == std::byte{1};
}

std::string_view GgufFile::text(const std::string& key) const {
  const GgufValue& v = value(key, false);
  if (v.type != GgufValueType::string) wrong_type(key, "a string");
  return {reinterpret_cast<const char*>(v.bytes.data()) + 8, v.bytes.size() - 8};
}

std::vector<std::string_view> GgufFile::texts(const std::string& key) const {
  const GgufValue& v = value(key, true);
  if (v.type != GgufValueType::string) wrong_type(key, "an array of strings");
  std::vector<std::string_view> all;
  all.reserve(v.count);
  for (const std::byte* p = v.bytes.data(); all.size() < v.count;) {
    const auto length = load<uint64_t>(p);
    all.emplace_back(reinterpret_cast<const char*>(p + 8), length);
    p += 8 + length;
  }
  return all;
}

std::vector<int64_t> GgufFile::integers(const std::string& key) const {
  const GgufValue& v = value(key, true);
  std::vector<int64_t> all;
  all.reserve(v.count);
  for (uint64_t i = 0; i < v.count; ++i) {
    const auto x = integer_at(v, i);
    if (!x) wrong_type(key, "an array of integers below 2^63");
    all.push_back(*x);
  }
  return all;
}

std::vector<double> GgufFile::numbers(const std::string& key) const {
  const GgufValue& v = value(key, true);
  std::vector<double> all;
  all.reserve(v.count);
  for (uint64_t i = 0; i < v.count; ++i) {
    const auto x = number_at(v, i);
    if (!x) wrong_type(key, "an array of numbers");
    all.push_back(*x);
  }
  return all;
}

}  // namespace minite::io
