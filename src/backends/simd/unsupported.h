#pragma once
// The one error of this backend, compiled for the baseline processor: the per-ISA files build no strings.
#include "minite/tensor.h"

namespace minite::simd {

/// Throws internal: `op` has no vector kernel for `dtype`.
[[noreturn]] void unsupported(const char* op, DType dtype);
/// Throws internal: `op` was given `have` bytes of scratch and needs `want`.
[[noreturn]] void short_scratch(const char* op, int64_t have, int64_t want);

}  // namespace minite::simd
