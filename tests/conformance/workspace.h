#pragma once
// Buffers of one run of one op. A case builds its arguments from a Workspace; the same case on the reference
// and on a candidate makes the same inputs, and afterwards every byte of every buffer, padding and inputs
// included, must be equal.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "minite/format.h"
#include "minite/tensor.h"

namespace minite::conformance {

/// What fills an input.
enum class Fill : uint8_t {
  normal,    ///< roughly Gaussian
  wide,      ///< random mantissas, exponents over most of FP32
  ties,      ///< points halfway between E2M1 and E4M3 values, under power-of-two factors
  special,   ///< zeros, -0, subnormals, infinities and NaN among normal values
  finite,    ///< the same without infinities and NaN
  sparse,    ///< mostly zeros and -0
  positive,  ///< normal magnitudes
};

/// Where buffers come from; the bytes live as long as the pointer.
using Allocate = std::shared_ptr<std::byte> (*)(int64_t bytes);
std::shared_ptr<std::byte> host_bytes(int64_t bytes);

class Workspace {
 public:
  explicit Workspace(uint64_t seed, Allocate allocate = host_bytes)
      : state_(seed * 0x9E3779B97F4A7C15u + 1), allocate_(allocate) {}

  /// A filled matrix whose rows are cols + extra elements apart; padding is poison.
  TensorView input(const char* name, DType dtype, int64_t rows, int64_t cols, Fill fill = Fill::normal,
                   int64_t extra = 0);
  /// A matrix of poison (NaN in every float type).
  TensorView output(const char* name, DType dtype, int64_t rows, int64_t cols, int64_t extra = 0);
  /// Poisoned codes, scales and outer scales.
  QTensor codes(const char* name, const QuantSpec& spec, int64_t rows, int64_t cols);
  std::span<int32_t> ints(const char* name, std::vector<int32_t> values);
  std::span<uint64_t> words(const char* name, std::vector<uint64_t> values);
  double* number(const char* name);
  /// Poison that no comparison looks at, 64-byte aligned.
  std::span<std::byte> scratch(int64_t bytes);

  /// A uniform 64-bit word; the same sequence for the same seed.
  uint64_t next();
  /// Uniform in [0, n).
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }

  /// Empty when all buffers agree, else the first difference: buffer, coordinate and both values. Two NaNs of
  /// a float buffer agree.
  [[nodiscard]] std::string difference(const Workspace& other) const;

 private:
  enum class Kind : uint8_t { f64, f32, bf16, bytes };
  struct Buffer {
    std::string name;
    Kind kind;
    int64_t width;  ///< elements a row, for the coordinate
    std::shared_ptr<std::byte> bytes;
    size_t size, offset;  ///< of the memory; of the first element in it
    [[nodiscard]] const std::byte* data() const { return bytes.get() + offset; }
  };
  Buffer poisoned(const char* name, Kind kind, int64_t width, int64_t bytes) const;
  std::byte* add(const char* name, Kind kind, int64_t width, int64_t elements, int64_t size);
  float value(Fill fill);

  uint64_t state_;
  Allocate allocate_;
  std::vector<Buffer> buffers_;
  std::vector<Buffer> scratch_;
};

}  // namespace minite::conformance
