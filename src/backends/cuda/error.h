#pragma once
// CUDA errors as exceptions. The messages are formatted in error.cpp: nvcc does not compile fmt's checks.
#include <string_view>

namespace minite::cuda {

/// Throws for the failed call `what`: unsupported when `absent` (no device, or no code for it), else
/// internal. `name` and `text` are CUDA's.
[[noreturn]] void fail_cuda(bool absent, const char* what, const char* name, const char* text);

/// Throws unsupported: "backend cuda: OP: REASON".
[[noreturn]] void refuse(std::string_view op, std::string_view reason);

}  // namespace minite::cuda
