#pragma once
// One quantization as kernels take it: plain values, passed by value in a kernel's arguments.
#include <string>

#include "backends/cuda/common/groups.h"
#include "ops/args.h"

namespace minite::cuda {

/// What a quantizer reads: [rows, cols] of the operand, which are x's or its transpose's.
struct DeviceSource {
  const void* x;
  int64_t stride;      ///< elements between rows of x
  int64_t rows, cols;  ///< of the operand, before a rotation rounds cols up
  bool columns;        ///< the operand is x^T
  bool f32;            ///< else bf16
  bool rotated;        ///< 16-point Hadamard along cols
};

struct DeviceCodes {
  uint8_t* codes;
  uint8_t* scales;
  float* outer;
  float* amax;
  int64_t rows, cols;
  int64_t code_stride, scale_stride;  ///< bytes
};

/// Which elements share an outer scale.
enum class Domain : uint8_t { none, tensor, row, group };

struct QuantizeJob {
  DeviceSource x;
  DeviceCodes out;
  bf16* decoded;  ///< or nullptr
  int64_t decoded_stride;
  Domain domain;
  bool tile;
  bool stochastic;
  ScaleSearch search;
  float range;  ///< 6 * scale_max
  uint64_t seed, stream;
  int64_t decoded_cols;      ///< columns of the operand that are decoded
  int64_t decoded_step = 1;  ///< elements of `decoded` from a column of the operand to the next
  DeviceGroups groups = {};  ///< of rows of x; without bounds: one matrix
};

[[nodiscard]] Domain domain_of(const QuantSpec& spec);
[[nodiscard]] DeviceCodes device_codes(const QTensor& q);
[[nodiscard]] QuantizeJob quantize_job(const QuantizeArgs& args);
/// Why no kernel quantizes by `spec`, "" when one does.
[[nodiscard]] std::string quantize_problem(const QuantSpec& spec);
/// Whether rows of x can be read by 16 bytes and hold whole blocks; whether codes can be written by 8 bytes.
[[nodiscard]] bool vectors_fit(const TensorView& x, int64_t block);
[[nodiscard]] bool vectors_fit(const QTensor& q);

}  // namespace minite::cuda
