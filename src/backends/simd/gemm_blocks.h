#pragma once
// Products NVFP4 x NVFP4 (gemm_blocks.cpp); gemm.cpp decides which products these are.
#include <span>

#include "backends/op_table.h"

namespace minite::simd::MINITE_ISA {

int64_t block_gemm_scratch(const GemmProblem& problem, int threads);
/// Independent products of one N.
void block_gemms(std::span<const GemmArgs> products, const Exec& exec);

}  // namespace minite::simd::MINITE_ISA
