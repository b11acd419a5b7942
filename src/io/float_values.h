#pragma once
// Stored floating point tensors as ops read them: BF16 stays BF16, all else becomes FP32.
#include <cstdint>

#include "core/memory.h"
#include "io/safetensors.h"

namespace minite::io {

/// Whether load_floats() reads the type: F64, F32, F16 and BF16, the floats wider than a byte.
[[nodiscard]] bool is_wide_float(StoredType type);

struct FloatValues {
  Buffer memory;             ///< all elements, row-major
  DType dtype = DType::f32;  ///< bf16 or f32
  int64_t rounded = 0;       ///< F64 values that FP32 cannot hold, rounded to nearest even
  DType stored = dtype;      ///< f16 where F16 values were widened

  [[nodiscard]] TensorView view(int64_t rows, int64_t cols) const {
    return {memory.data(), dtype, rows, cols};
  }
};

/// Copies the values of `tensor`. F16 to FP32 is exact, F64 to FP32 is counted where it is not. Errors:
/// unsupported for a type that is_wide_float() refuses.
[[nodiscard]] FloatValues load_floats(const TensorInfo& tensor);

/// The value of IEEE binary16 bits; exact, NaN stays NaN.
[[nodiscard]] float from_half(uint16_t bits);

}  // namespace minite::io
