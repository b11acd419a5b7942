#pragma once
// One block of one group of rows as a job of its own. For .cu files only.
#include "backends/cuda/quantize/load.h"

namespace minite::cuda {

/// Where the blocks of each group begin, along columns.
using BlockTable = UnitTable<1024>;

/// Rows [begin, begin + rows) of x and their codes, as ops/grouped_args.h lays them out. `padded`: S_g.
template <int kBlock, int kBits>
__device__ inline QuantizeJob group_job(QuantizeJob job, int g, int begin, int rows, int64_t padded) {
  const int64_t bytes = job.x.f32 ? 4 : 2;
  job.x.x = static_cast<const char*>(job.x.x) + begin * job.x.stride * bytes;
  job.stream += static_cast<uint64_t>(g);
  int64_t scale = job.domain == Domain::group ? g : 0;
  if (!job.x.columns) {
    job.x.rows = job.out.rows = rows;
    job.out.codes += begin * job.out.code_stride;
    job.out.scales += begin * job.out.scale_stride;
    if (job.decoded != nullptr) job.decoded += begin * job.decoded_stride;
    if (job.domain == Domain::row) scale = begin;
  } else {
    const int64_t cols = (rows + kBlock - 1) / kBlock * kBlock;
    if (job.out.codes != nullptr) {
      job.out.codes += job.out.rows * padded * kBits / 8;
      job.out.scales += job.out.rows * padded / kBlock;
    }
    job.x.cols = job.decoded_cols = rows;
    job.out.cols = cols;
    job.out.code_stride = cols * kBits / 8;
    job.out.scale_stride = cols / kBlock;
    if (job.decoded != nullptr) job.decoded += begin * job.decoded_step;
    if (job.domain == Domain::row) scale = g * job.out.rows;
  }
  if (job.domain != Domain::none) {
    job.out.outer += scale;
    job.out.amax += scale;
  }
  if (job.domain == Domain::group) job.domain = Domain::tensor;
  job.groups = {};
  return job;
}

struct GroupPlace {
  QuantizeJob job;
  Place at;
};
/// What thread `item` owns: along rows a block of a row, along columns a block of a column, neighbours side
/// by side. `table` counts blocks.
template <int kBlock, int kBits>
__device__ inline GroupPlace group_place(const QuantizeJob& job, const BlockTable& table, uint32_t item) {
  const DeviceGroups& groups = job.groups;
  if (!job.x.columns) {
    const auto per_row = static_cast<uint32_t>(job.out.scale_stride);
    const auto r = static_cast<int>(item / per_row);
    if (r >= group_begin(groups, groups.count)) return {job, {0, 0, false}};
    const int g = group_of_row(groups, r), begin = group_begin(groups, g);
    return {group_job<kBlock, kBits>(job, g, begin, group_begin(groups, g + 1) - begin, 0),
            {r - begin, item % per_row, true}};
  }
  const auto lines = static_cast<uint32_t>(job.out.rows), block = item / lines;
  if (block >= static_cast<uint32_t>(table.units(groups))) return {job, {0, 0, false}};
  const GroupUnit u = table.find(groups, static_cast<int>(block), kBlock);
  const int64_t padded = int64_t{kBlock} * (static_cast<int>(block) - u.unit);
  return {group_job<kBlock, kBits>(job, u.group, u.begin, u.rows, padded), {item % lines, u.unit, true}};
}

}  // namespace minite::cuda
