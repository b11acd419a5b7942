#pragma once
// Groups of packed rows whose bounds lie on the device.
#include "ops/grouped_args.h"

namespace minite::cuda {

/// By value in a kernel's arguments.
struct DeviceGroups {
  const int32_t* offset;  ///< [count + 1]
  int32_t count;
  int32_t rows;  ///< of the matrices: nothing past them is touched, whatever the bounds say
};
inline DeviceGroups device_groups(const GroupBounds& groups, int64_t rows) {
  return {groups.offset, static_cast<int32_t>(groups.count), static_cast<int32_t>(rows)};
}
/// Whether coordinates of 32 bits reach all groups and rows.
inline bool groups_fit(const GroupBounds& groups, int64_t rows) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return groups.count < kMost && rows < kMost;
}

#ifdef __CUDACC__
/// First row of group g; for g = count, the end of the last.
__device__ inline int group_begin(const DeviceGroups& groups, int g) {
  return min(__ldg(groups.offset + g), groups.rows);
}
/// The group of row r, count for a row of none. A search in global memory: about log2(count) reads of the L1.
__device__ inline int group_of_row(const DeviceGroups& groups, int r) {
  int low = 0, high = groups.count + 1;  // offset[low] <= r < offset[high], as if the end were infinite
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (group_begin(groups, middle) <= r) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// A unit (a tile, a block) of `size` rows of one group; the last of a group may be cut.
struct GroupUnit {
  int group, begin, rows;  ///< and the group's rows
  int unit;                ///< its number in the group
};

/// Where the units of each group begin, in shared memory. An entry stands for as many groups as fit
/// kEntries of them.
template <int kEntries>
struct UnitTable {
  int32_t first[kEntries + 1];  ///< units before an entry; then all units

  static __device__ int step(const DeviceGroups& groups) { return (groups.count + kEntries - 1) / kEntries; }
  static __device__ int entries(const DeviceGroups& groups) {
    return (groups.count + step(groups) - 1) / step(groups);
  }
  [[nodiscard]] __device__ int units(const DeviceGroups& groups) const { return first[entries(groups)]; }

  /// By all threads of the block, which are in step after it.
  __device__ void fill(const DeviceGroups& groups, int size) {
    const int groups_each = step(groups), count = entries(groups);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      int units = 0, begin = group_begin(groups, i * groups_each);
      for (int g = i * groups_each; g < min(groups.count, (i + 1) * groups_each); ++g) {
        const int end = group_begin(groups, g + 1);
        units += max(0, end - begin + size - 1) / size;
        begin = end;
      }
      first[i + 1] = units;
    }
    __syncthreads();
    if (threadIdx.x < 32) sum_up(count);
    __syncthreads();
  }

  /// Unit i of all, i < units().
  [[nodiscard]] __device__ GroupUnit find(const DeviceGroups& groups, int i, int size) const {
    int low = 0, high = entries(groups);
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (first[middle] <= i) {
        low = middle;
      } else {
        high = middle;
      }
    }
    GroupUnit at = {low * step(groups), 0, 0, i - first[low]};
    for (at.begin = group_begin(groups, at.group);; ++at.group) {
      const int end = group_begin(groups, at.group + 1), units = max(0, end - at.begin + size - 1) / size;
      if (at.unit < units || at.group + 1 == groups.count) {
        at.rows = end - at.begin;
        return at;
      }
      at.unit -= units;
      at.begin = end;
    }
  }

 private:
  /// Running sums of first[1 ...], by one warp.
  __device__ void sum_up(int count) {
    const int lane = static_cast<int>(threadIdx.x), each = (count + 31) / 32;
    const int begin = min(count, lane * each), end = min(count, begin + each);
    int own = 0;
    for (int i = begin; i < end; ++i) own += first[i + 1];
    int before = own;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(0xFFFFFFFFu, before, distance);
      before += lane >= distance ? other : 0;
    }
    before -= own;
    for (int i = begin; i < end; ++i) first[i + 1] = before += first[i + 1];
    if (lane == 0) first[0] = 0;
  }
};
#endif

}  // namespace minite::cuda
