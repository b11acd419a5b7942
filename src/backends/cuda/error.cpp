#include "backends/cuda/error.h"

#include "core/fail.h"

namespace minite::cuda {

void fail_cuda(bool absent, const char* what, const char* name, const char* text) {
  fail(absent ? ErrorCode::unsupported : ErrorCode::internal, "CUDA: {}: {} ({})", what, text, name);
}

void refuse(std::string_view op, std::string_view reason) {
  fail(ErrorCode::unsupported, "backend cuda: {}: {}", op, reason);
}

}  // namespace minite::cuda
