#include "backends/simd/unsupported.h"

#include "core/fail.h"

namespace minite::simd {

void unsupported(const char* op, DType dtype) {
  fail(ErrorCode::internal, "{} has no simd kernel for {}; bf16 and f32 have one, the ref backend takes f64",
       op, dtype_name(dtype));
}

void short_scratch(const char* op, int64_t have, int64_t want) {
  fail(ErrorCode::internal, "{} was given {} bytes of scratch a thread and needs {}", op, have, want);
}

}  // namespace minite::simd
