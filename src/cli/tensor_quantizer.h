#pragma once
// One stored tensor, 2-D [M,K] or 3-D [E,M,K], quantized as a whole: its parts, and what was lost.
#include <array>
#include <string>
#include <vector>

#include "cli/op_runner.h"
#include "diagnostics/error_stats.h"
#include "io/float_values.h"
#include "ops/code_stats.h"

namespace minite::cli {

/// A tensor as experts x rows x cols; a 2-D tensor is one expert.
struct TensorShape3 {
  int64_t experts = 1, rows = 0, cols = 0;
  [[nodiscard]] int64_t count() const { return experts * rows * cols; }
};
/// Whether `shape` has two or three dimensions.
[[nodiscard]] bool is_matrix(const std::vector<int64_t>& shape);
[[nodiscard]] TensorShape3 matrix_shape(const std::vector<int64_t>& shape);

/// One orientation of a tensor in codes. The parts are the quantization units in order: an expert each, or
/// one for all when they share an outer scale of the tensor.
struct QuantizedHalf {
  QuantSpec spec;
  Orientation along = Orientation::rows;
  TensorShape3 shape;  ///< of the codes: experts x rows x columns of elements
  std::vector<QTensor> parts;
  std::vector<Buffer> memory;

  /// The bytes of one field of every part, one after the other.
  [[nodiscard]] std::vector<std::byte> codes() const;
  [[nodiscard]] std::vector<std::byte> block_scales() const;
  [[nodiscard]] std::vector<std::byte> outer() const;
  [[nodiscard]] std::vector<std::byte> amax() const;
  [[nodiscard]] int64_t outer_count() const;
};

/// Numbers about one half. A rotated half is compared after rotating the decoded values back.
struct HalfStats {
  diagnostics::ErrorStats error;
  ops::ScaleStats scales;
  int64_t saturated = 0;  ///< 0 for a rotated half: the codes are not those of x
};

class TensorQuantizer {
 public:
  TensorQuantizer(OpRunner& runner, uint64_t seed) : runner_(&runner), seed_(seed) {}

  /// Quantizes `x` along its rows, or its columns (each expert's transpose on its own). `name` names the
  /// tensor in errors and picks the random bits of stochastic rounding. Errors: unsupported when one outer
  /// scale of the tensor meets tiles or a rotation that would straddle experts, with the remedy.
  [[nodiscard]] QuantizedHalf quantize(const std::string& name, const io::FloatValues& x,
                                       const TensorShape3& shape, const QuantSpec& spec, Orientation along);

  /// The decoded values as FP32, in the order of the codes' rows.
  [[nodiscard]] Buffer dequantize(const QuantizedHalf& half);
  /// What `half` lost of `x`, a few rows at a time.
  [[nodiscard]] HalfStats stats(const QuantizedHalf& half, const io::FloatValues& x,
                                const TensorShape3& shape);

 private:
  /// `stored` as in QuantizeArgs.
  void add_part(QuantizedHalf& half, const TensorView& x, Orientation along, const Noise& noise,
                DType stored);

  OpRunner* runner_;
  uint64_t seed_;
};

}  // namespace minite::cli
