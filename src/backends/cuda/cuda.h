#pragma once
#include "backends/registry.h"

namespace minite::cuda {
/// The CUDA backend, or the sentence that says why it cannot run.
Backend backend();
}  // namespace minite::cuda
