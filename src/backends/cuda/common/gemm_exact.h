#pragma once
// The product in the canonical order (docs/numerics.md): the bits of the reference, on any device. It runs on
// the FP32 units; who asks for it wants bits, not speed.
#include "backends/op_table.h"

namespace minite::cuda {

inline constexpr std::string_view kExactKernel = "cuda_exact_canonical";

void gemm_exact(const GemmArgs& args, const Exec& exec);

}  // namespace minite::cuda
