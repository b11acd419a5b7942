#pragma once
// CUDA errors as exceptions. The message is formatted in error.cpp: nvcc does not compile fmt's checks.
namespace minite::cuda {

/// Throws for the failed call `what`: unsupported when `absent` (no device, or no code for it), else
/// internal. `name` and `text` are CUDA's.
[[noreturn]] void fail_cuda(bool absent, const char* what, const char* name, const char* text);

}  // namespace minite::cuda
