// The writer of safetensors.h.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/safetensors.h"

namespace minite::io {
namespace {

constexpr size_t kAlign = 8;

struct Slot {
  const std::string* name;
  const TensorShape* shape;
  int64_t bytes;
};

int64_t byte_size(const std::string& name, const TensorShape& tensor) {
  int64_t bytes = stored_type(tensor.type).bytes;
  for (const int64_t dim : tensor.shape) {
    require(dim >= 0 && !__builtin_mul_overflow(bytes, dim, &bytes),
            "tensor \"{}\" has shape [{}]; dimensions must be >= 0 and their product below 2^63",
            printable(name), fmt::join(tensor.shape, ", "));
  }
  return bytes;
}

// File order: falling element size, then name. Every offset is then a multiple of the element size.
std::vector<Slot> file_order(const std::map<std::string, TensorShape>& shapes) {
  std::vector<Slot> slots;
  for (const auto& [name, shape] : shapes) {
    require(name != "__metadata__", "a tensor must not be named __metadata__; the format reserves it");
    slots.push_back({&name, &shape, byte_size(name, shape)});
  }
  std::stable_sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    return stored_type(a.shape->type).bytes > stored_type(b.shape->type).bytes;
  });
  return slots;
}

std::string header_text(const std::vector<Slot>& slots, const Metadata& metadata) {
  nlohmann::json header = nlohmann::json::object();  // an ordered map: keys come out sorted
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const Slot& slot : slots) {
    header[*slot.name] = {{"dtype", stored_type(slot.shape->type).name},
                          {"shape", slot.shape->shape},
                          {"data_offsets", {at, at + slot.bytes}}};
    require(!__builtin_add_overflow(at, slot.bytes, &at), "the tensors together exceed 2^63 bytes");
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::invalid_argument, "a tensor name or metadata text is not UTF-8; rename it");
  }
  text.append((kAlign - text.size() % kAlign) % kAlign, ' ');
  return text;
}

/// The length of the header as the file begins with it.
std::string length_bytes(uint64_t length) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::map<std::string, TensorShape>& shapes,
                                     const Metadata& metadata)
    : file_(path) {
  const std::vector<Slot> slots = file_order(shapes);
  const std::string header = header_text(slots, metadata);
  uint64_t at = 8 + header.size();
  for (const Slot& slot : slots) {
    places_[*slot.name] = {*slot.shape, at, slot.bytes, 0, false};
    at += static_cast<uint64_t>(slot.bytes);
  }
  file_.write_at(0, length_bytes(header.size()) + header);
}

void SafetensorsWriter::put(const std::string& name, std::span<const std::byte> bytes) {
  const auto it = places_.find(name);
  if (it == places_.end() || it->second.done || it->second.written > 0)
    fail(ErrorCode::internal, "tensor \"{}\" was not announced, or was put twice", printable(name));
  const Place& place = it->second;
  require(static_cast<int64_t>(bytes.size()) == place.bytes,
          "tensor \"{}\" has {} bytes for {} [{}], which needs {}", printable(name), bytes.size(),
          stored_type(place.shape.type).name, fmt::join(place.shape.shape, ", "), place.bytes);
  put_next(name, bytes);
}

void SafetensorsWriter::put_next(const std::string& name, std::span<const std::byte> bytes) {
  const auto it = places_.find(name);
  if (it == places_.end() || it->second.done)
    fail(ErrorCode::internal, "tensor \"{}\" was not announced, or was put twice", printable(name));
  Place& place = it->second;
  const auto count = static_cast<int64_t>(bytes.size());
  require(count <= place.bytes - place.written, "tensor \"{}\": {} bytes more than its {}", printable(name),
          count - (place.bytes - place.written), place.bytes);
  file_.write_at(place.begin + static_cast<uint64_t>(place.written),
                 {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  place.written += count;
  place.done = place.written == place.bytes;
}

void SafetensorsWriter::commit() {
  for (const auto& [name, place] : places_) {
    if (!place.done) fail(ErrorCode::internal, "tensor \"{}\" was never put", printable(name));
  }
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorShape>& shapes,
                       const TensorSource& source, const Metadata& metadata) {
  SafetensorsWriter writer(path, shapes, metadata);
  for (const Slot& slot : file_order(shapes)) writer.put(*slot.name, source(*slot.name));
  writer.commit();
}

void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const Metadata& metadata) {
  std::map<std::string, TensorShape> shapes;
  for (const auto& [name, info] : tensors) shapes[name] = {info.type, info.shape};
  write_safetensors(
      path, shapes, [&](const std::string& name) { return tensors.at(name).bytes; }, metadata);
}

}  // namespace minite::io
