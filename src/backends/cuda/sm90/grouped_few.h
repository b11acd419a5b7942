#pragma once
// Products by group of few rows each with prepacked NVFP4 weights, bounds on the device.
#include "backends/cuda/sm90/fragments.h"
#include "backends/cuda/sm90/grouped.h"

namespace minite::cuda::sm90 {

/// Up to so many rows a group on average; above, decoded weights are faster.
inline constexpr int64_t kGroupedFewRows = 64;

/// Weights [E*N, K], and the packed rows' values [R, K] in BF16.
struct GroupedFewOperands {
  Fragments w;
  const uint16_t* x;  ///< rows at multiples of 16 bytes
  int64_t x_stride;   ///< elements
  DeviceGroups groups;
  int64_t n, k;
};

/// Whether no fragment spans two groups, K is whole pairs of fragments and the grid can be counted.
[[nodiscard]] bool grouped_few_fits(int64_t rows, int64_t groups, int64_t n, int64_t k);

/// The bits of gemm_few of each group alone. The sums lack kFragmentGain, which `epilogue` holds.
void grouped_few(const GroupedFewOperands& in, const GroupedEpilogue& epilogue, void* stream);

}  // namespace minite::cuda::sm90
