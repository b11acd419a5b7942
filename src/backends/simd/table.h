#pragma once
#include "backends/registry.h"

namespace minite::simd {
/// The vector backend at the level that MINITE_SIMD and the processor allow, or the sentence why none runs.
Backend backend();
}  // namespace minite::simd
