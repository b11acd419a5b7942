#pragma once
// The tables of the instruction sets; isa_table.cpp defines one in each per-ISA library.
#include "backends/op_table.h"

namespace minite::simd {
namespace avx2 {
const OpTable& table();
}
namespace avx512 {
const OpTable& table();
}
}  // namespace minite::simd
