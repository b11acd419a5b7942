#pragma once
// Products by group on Hopper's tensor cores, bounds on the device.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/common/groups.h"
#include "backends/cuda/sm90/major.h"

namespace minite::cuda::sm90 {

/// Outer scales and output of a grouped product: those of a group lie `a_group` and `b_group` scales past
/// those of the group before.
struct GroupedEpilogue {
  DeviceEpilogue each;
  int64_t a_group, b_group;
};

/// Rows of group g: y = a b_g^T. BF16 that the copy engine can read.
struct GroupedProduct {
  TensorView a, b, y;  ///< [R, K]; [E*N, K], or [E*K, N] for Major::rows; [R, N]
  Major b_major = Major::k;
  DeviceGroups groups;
  int64_t n = 0, k = 0;
  int64_t chunk = 0;       ///< k of a chunk (chunks.h)
  int* claimed = nullptr;  ///< 0 when the kernel starts
};
void grouped_wide(const GroupedProduct& product, const GroupedEpilogue& epilogue, void* stream);
void grouped_chunked(const GroupedProduct& product, const GroupedEpilogue& epilogue, void* stream);

/// y_g = a_g^T b_g over the rows of group g.
struct GroupedWgrad {
  TensorView a, b, y;  ///< [R, N], [R, K], [E*N, K]
  DeviceGroups groups;
  int64_t chunk = 0;  ///< rows of a chunk; 0: one chain spans the group
};
void grouped_wgrad_wide(const GroupedWgrad& product, const GroupedEpilogue& epilogue, void* stream);
void grouped_wgrad_chunked(const GroupedWgrad& product, const GroupedEpilogue& epilogue, void* stream);

}  // namespace minite::cuda::sm90
