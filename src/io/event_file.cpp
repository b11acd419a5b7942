#include "io/event_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <optional>
#include <type_traits>

namespace minite::io {
namespace {

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}();

// A checksum of bytes that hold checksums is weak; TFRecord stores it rotated and shifted.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
void put_little_endian(std::string& out, T value) {
  const auto bits = std::bit_cast<BitsOf<T>>(value);
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(bits >> (8 * i) & 0xFF);
}

template <class T>
T little_endian(std::string_view bytes) {
  BitsOf<T> bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    bits |= static_cast<BitsOf<T>>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return std::bit_cast<T>(bits);
}

// --- protocol buffers: a field is a varint (number << 3 | wire type) and its bytes
// ---------------------------
enum Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr uint64_t key(uint64_t field, Wire wire) { return field << 3 | wire; }
constexpr uint64_t kWallTime = key(1, kFixed64), kStep = key(2, kVarint), kFileVersion = key(3, kBytes),
                   kSummary = key(5, kBytes);                               // of Event
constexpr uint64_t kValue = key(1, kBytes);                                 // of Summary
constexpr uint64_t kTag = key(1, kBytes), kSimpleValue = key(2, kFixed32);  // of Summary.Value

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_bytes(std::string& out, uint64_t field_key, std::string_view bytes) {
  put_varint(out, field_key);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string summary_message(const std::vector<EventScalar>& scalars) {
  std::string summary, value;
  for (const EventScalar& scalar : scalars) {
    value.clear();
    put_bytes(value, kTag, scalar.tag);
    put_varint(value, kSimpleValue);
    put_little_endian(value, scalar.value);
    put_bytes(summary, kValue, value);
  }
  return summary;
}

// Fields that have the value 0 or are empty are left out, as the format wants.
std::string event_message(const Event& event) {
  std::string out;
  put_varint(out, kWallTime);
  put_little_endian(out, event.wall_time);
  if (event.step != 0) {
    put_varint(out, kStep);
    put_varint(out, static_cast<uint64_t>(event.step));
  }
  if (!event.file_version.empty()) put_bytes(out, kFileVersion, event.file_version);
  if (!event.scalars.empty()) put_bytes(out, kSummary, summary_message(event.scalars));
  return out;
}

/// A field as it lies in a message: the number of a varint, or the bytes of the other kinds.
struct Field {
  uint64_t key = 0;
  uint64_t number = 0;
  std::string_view bytes;
};

class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }
  /// Nothing when the message is malformed.
  std::optional<Field> next() {
    const auto field_key = varint();
    if (!field_key) return std::nullopt;
    Field field{*field_key, 0, {}};
    switch (*field_key & 7) {
      case kVarint: {
        const auto number = varint();
        if (!number) return std::nullopt;
        field.number = *number;
        return field;
      }
      case kFixed64:
        return take(field, 8);
      case kFixed32:
        return take(field, 4);
      case kBytes: {
        const auto size = varint();
        return size ? take(field, *size) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (size_t i = 0; i < 10 && i < rest_.size(); ++i) {
      const auto byte = static_cast<uint8_t>(rest_[i]);
      value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
      if ((byte & 0x80) != 0) continue;
      rest_.remove_prefix(i + 1);
      return value;
    }
    return std::nullopt;
  }
  std::optional<Field> take(Field field, uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    field.bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

/// Calls `use` with every field of a message; false when it is malformed or `use` says so.
template <class Use>
bool each_field(std::string_view bytes, const Use& use) {
  for (Message message(bytes); !message.done();) {
    const auto field = message.next();
    if (!field || !use(*field)) return false;
  }
  return true;
}

bool parse_value(std::string_view bytes, std::vector<EventScalar>& scalars) {
  EventScalar scalar;
  bool is_scalar = false;
  const bool good = each_field(bytes, [&](const Field& f) {
    if (f.key == kTag) scalar.tag = f.bytes;
    if (f.key == kSimpleValue) scalar.value = little_endian<float>(f.bytes);
    is_scalar = is_scalar || f.key == kSimpleValue;
    return true;
  });
  if (good && is_scalar) scalars.push_back(std::move(scalar));
  return good;
}

std::optional<Event> parse_event(std::string_view bytes) {
  Event event;
  const bool good = each_field(bytes, [&](const Field& f) {
    if (f.key == kWallTime) event.wall_time = little_endian<double>(f.bytes);
    if (f.key == kStep) event.step = static_cast<int64_t>(f.number);
    if (f.key == kFileVersion) event.file_version = f.bytes;
    if (f.key != kSummary) return true;
    return each_field(f.bytes,
                      [&](const Field& v) { return v.key != kValue || parse_value(v.bytes, event.scalars); });
  });
  return good ? std::optional(std::move(event)) : std::nullopt;
}

constexpr size_t kLength = 8, kCrc = 4, kHead = kLength + kCrc;

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return crc ^ 0xFFFFFFFFu;
}

std::string event_record(const Event& event) { return tf_record(event_message(event)); }

std::string tf_record(std::string_view message) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(message.size()));
  put_little_endian(record, masked_crc(record));
  record += message;
  put_little_endian(record, masked_crc(message));
  return record;
}

EventFile parse_events(std::string_view bytes) {
  EventFile file;
  size_t at = 0;
  const auto stop = [&](std::string_view why) {
    file.fault = fmt::format("record {} at byte {} {}", file.events.size(), at, why);
    return file;
  };
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    if (rest.size() < kHead) return stop("is cut short");
    if (masked_crc(rest.substr(0, kLength)) != little_endian<uint32_t>(rest.substr(kLength)))
      return stop("has a damaged length");
    const auto size = little_endian<uint64_t>(rest);
    if (rest.size() - kHead < kCrc || rest.size() - kHead - kCrc < size) return stop("is cut short");
    const std::string_view message = rest.substr(kHead, size);
    if (masked_crc(message) != little_endian<uint32_t>(rest.substr(kHead + size))) return stop("is damaged");
    auto event = parse_event(message);
    if (!event) return stop("is no Event");
    file.events.push_back(std::move(*event));
    at += kHead + size + kCrc;
    file.ends.push_back(at);
  }
  return file;
}

}  // namespace minite::io
