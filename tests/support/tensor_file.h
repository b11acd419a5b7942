#pragma once
// Safetensors files written byte by byte, as another program would: data in the order given, not aligned, and
// faults where a test wants them.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "support/temp_folder.h"

namespace minite::test_support {

/// The bytes of `values`.
template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class TensorFile {
 public:
  TensorFile& add(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
                  const std::string& bytes) {
    std::string dims;
    for (const int64_t dim : shape) dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
    const auto end = data_.size() + bytes.size();
    header_ += (header_.empty() ? "" : ", ") + ("\"" + name + "\": {\"dtype\": \"" + dtype) +
               "\", \"shape\": [" + dims + "], \"data_offsets\": [" + std::to_string(data_.size()) + ", " +
               std::to_string(end) + "]}";
    data_ += bytes;
    return *this;
  }
  TensorFile& f32(const std::string& name, const std::vector<int64_t>& shape,
                  const std::vector<float>& values) {
    return add(name, "F32", shape, raw(values));
  }
  [[nodiscard]] std::string bytes() const {
    // One blank behind the brace puts every tensor at an odd address for most headers.
    const std::string header = "{" + header_ + "} ";
    std::string text(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(text.data(), &length, 8);
    return text + header + data_;
  }
  void write(const std::filesystem::path& path) const { spill(path, bytes()); }

 private:
  std::string header_, data_;
};

/// The elements of a stored tensor.
template <class T>
std::vector<T> values_of(const io::TensorInfo& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// `count` values from -4 to 4 that look random and are exact in BF16 and in FP16.
inline std::vector<float> small_values(size_t count, uint32_t seed = 1) {
  std::vector<float> values(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(state >> 24) - 128) / 32.0f;
  }
  return values;
}

/// The F16 bits of a value that F16 holds as a normal number, or of 0.
inline uint16_t half_bits(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(std::fabs(value), &exponent);
  const int bits = value == 0 ? 0 : (exponent + 14) << 10 | (static_cast<int>(mantissa * 2048) & 1023);
  return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

}  // namespace minite::test_support
