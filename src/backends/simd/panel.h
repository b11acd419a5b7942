#pragma once
// Width of the panels that the products of this instruction set walk: rows of b, one a lane.
#include "backends/simd/vec.h"

namespace minite::simd::MINITE_ISA {

#ifdef __AVX512F__
inline constexpr int kPanelVectors = 2;
#else
inline constexpr int kPanelVectors = 1;
#endif
inline constexpr int kPanel = kPanelVectors * kLanes;

}  // namespace minite::simd::MINITE_ISA
