// The writer of gguf.h.
#include <cstring>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/gguf.h"

namespace minite::io {
namespace {

template <class T>
void append(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}
void append_text(std::string& to, std::string_view text) {
  append<uint64_t>(to, text.size());
  to.append(text);
}

/// Appends `x` as `type`; false when it is not an integer type or does not hold x.
bool append_integer(std::string& to, GgufValueType type, int64_t x) {
  const auto put = [&]<class T>(T) {
    if (!std::in_range<T>(x)) return false;
    append(to, static_cast<T>(x));
    return true;
  };
  switch (type) {
    case GgufValueType::u8:
      return put(uint8_t{});
    case GgufValueType::i8:
      return put(int8_t{});
    case GgufValueType::u16:
      return put(uint16_t{});
    case GgufValueType::i16:
      return put(int16_t{});
    case GgufValueType::u32:
      return put(uint32_t{});
    case GgufValueType::i32:
      return put(int32_t{});
    case GgufValueType::u64:
      return put(uint64_t{});
    case GgufValueType::i64:
      return put(int64_t{});
    default:
      return false;
  }
}

void put_integer_or_fail(std::string& to, const std::string& key, GgufValueType type, int64_t x) {
  require(append_integer(to, type, x), "value \"{}\": {} is not a {}", printable(key), x, to_string(type));
}

uint64_t aligned(uint64_t at, uint64_t to) { return (at + to - 1) / to * to; }

uint64_t bytes_of(const GgufTensorShape& t) {
  require(!t.name.empty() && t.name.size() < 64 && !first_invalid_utf8(t.name),
          "tensor \"{}\": a name has 1 to 63 bytes of UTF-8", printable(t.name));
  require(!t.shape.empty() && t.shape.size() <= 4, "tensor \"{}\" has {} dimensions, GGUF holds 1 to 4",
          printable(t.name), t.shape.size());
  const GgufTypeRow& row = gguf_type(t.type);
  require(t.shape.back() >= 0 && t.shape.back() % row.block == 0,
          "tensor \"{}\" has rows of {} elements, {} needs whole blocks of {}", printable(t.name),
          t.shape.back(), row.name, row.block);
  int64_t bytes = row.bytes;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const int64_t size = i + 1 == t.shape.size() ? t.shape[i] / row.block : t.shape[i];
    require(size >= 0 && !__builtin_mul_overflow(bytes, size, &bytes),
            "tensor \"{}\" has shape [{}]; dimensions must be >= 0 and their product below 2^63",
            printable(t.name), fmt::join(t.shape, ", "));
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace

void GgufValues::begin(const std::string& key, GgufValueType type, bool array, uint64_t count) {
  require(!key.empty() && !first_invalid_utf8(key), "key \"{}\" is empty or not UTF-8", printable(key));
  require(keys_.emplace(key, true).second, "key \"{}\" is put twice", printable(key));
  append_text(bytes_, key);
  if (array) append(bytes_, static_cast<uint32_t>(GgufValueType::array));
  append(bytes_, static_cast<uint32_t>(type));
  if (array) append(bytes_, count);
}

void GgufValues::put_integer(const std::string& key, GgufValueType type, int64_t value) {
  std::string bytes;
  put_integer_or_fail(bytes, key, type, value);
  if (key == "general.alignment") {
    require(type == GgufValueType::u32 && value > 0 && (value & (value - 1)) == 0 && value <= (1 << 20),
            "general.alignment is {} {}, must be a u32 and a power of two up to 2^20", value,
            to_string(type));
    alignment_ = static_cast<uint64_t>(value);
  }
  begin(key, type, false, 1);
  bytes_ += bytes;
}

void GgufValues::put_number(const std::string& key, float value) {
  begin(key, GgufValueType::f32, false, 1);
  append(bytes_, value);
}

void GgufValues::put_boolean(const std::string& key, bool value) {
  begin(key, GgufValueType::boolean, false, 1);
  append(bytes_, static_cast<uint8_t>(value ? 1 : 0));
}

void GgufValues::put_text(const std::string& key, std::string_view value) {
  begin(key, GgufValueType::string, false, 1);
  append_text(bytes_, value);
}

void GgufValues::put_texts(const std::string& key, std::span<const std::string_view> values) {
  begin(key, GgufValueType::string, true, values.size());
  for (const std::string_view text : values) append_text(bytes_, text);
}

void GgufValues::put_integers(const std::string& key, GgufValueType type, std::span<const int64_t> values) {
  std::string bytes;
  for (const int64_t x : values) put_integer_or_fail(bytes, key, type, x);
  begin(key, type, true, values.size());
  bytes_ += bytes;
}

void GgufValues::put_numbers(const std::string& key, std::span<const float> values) {
  begin(key, GgufValueType::f32, true, values.size());
  for (const float x : values) append(bytes_, x);
}

void GgufValues::put(const std::string& key, const GgufValue& value) {
  if (key == "general.alignment") {
    uint32_t alignment = 0;
    require(value.type == GgufValueType::u32 && !value.array && value.bytes.size() == 4,
            "general.alignment is not a u32");
    std::memcpy(&alignment, value.bytes.data(), 4);
    return put_integer(key, GgufValueType::u32, alignment);
  }
  begin(key, value.type, value.array, value.count);
  bytes_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufValues& values,
                       const std::vector<GgufTensorShape>& tensors)
    : file_(path) {
  std::string header = "GGUF";
  append<uint32_t>(header, 3);
  append<uint64_t>(header, tensors.size());
  append<uint64_t>(header, values.count());
  header += values.bytes();
  uint64_t offset = 0;
  for (const GgufTensorShape& t : tensors) {
    const uint64_t bytes = bytes_of(t);
    require(places_.emplace(t.name, Place{offset, bytes, false}).second, "tensor \"{}\" stands twice",
            printable(t.name));
    append_text(header, t.name);
    append(header, static_cast<uint32_t>(t.shape.size()));
    for (auto size = t.shape.rbegin(); size != t.shape.rend(); ++size)
      append(header, static_cast<uint64_t>(*size));
    append(header, static_cast<uint32_t>(t.type));
    append(header, offset);
    offset = aligned(offset + bytes, values.alignment());
  }
  header.append(aligned(header.size(), values.alignment()) - header.size(), '\0');
  for (auto& [name, place] : places_) place.begin += header.size();
  end_ = header.size() + offset;
  file_.write_at(0, header);
}

void GgufWriter::put(const std::string& name, std::span<const std::byte> bytes) {
  const auto it = places_.find(name);
  if (it == places_.end() || it->second.done)
    fail(ErrorCode::internal, "tensor \"{}\" was not announced, or was put twice", printable(name));
  require(bytes.size() == it->second.bytes, "tensor \"{}\" has {} bytes, its shape needs {}", printable(name),
          bytes.size(), it->second.bytes);
  file_.write_at(it->second.begin, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  it->second.done = true;
}

void GgufWriter::commit() {
  uint64_t last = 0;
  for (const auto& [name, place] : places_) {
    if (!place.done) fail(ErrorCode::internal, "tensor \"{}\" was never put", printable(name));
    last = std::max(last, place.begin + place.bytes);
  }
  if (last < end_ && !places_.empty()) file_.write_at(last, std::string(end_ - last, '\0'));
  file_.commit();
}

}  // namespace minite::io
