// NVFP4 of groups of rows, with every option of convention te but 2D: a thread owns a block of 16 of one
// group. rows.cu and grouped_columns.cu are the fast paths.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/group_place.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/nvfp4.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 128;

__global__ void __launch_bounds__(kThreads) amax_kernel(QuantizeJob all) {
  __shared__ BlockTable table;
  table.fill(all.groups, 16);
  const auto [job, at] = group_place<16, 4>(all, table, blockIdx.x * kThreads + threadIdx.x);
  if (!at.inside) return;
  float v[16];
  load_block<16>(job.x, at.r, at.b * 16, v);
  // The maximum of bit patterns is exact in any order.
  atomicMax(reinterpret_cast<unsigned*>(job.out.amax) + (job.domain == Domain::row ? at.r : 0),
            amax_bits<16>(v));
}

__global__ void __launch_bounds__(kThreads) quantize_kernel(QuantizeJob all) {
  __shared__ BlockTable table;
  table.fill(all.groups, 16);
  const auto [job, at] = group_place<16, 4>(all, table, blockIdx.x * kThreads + threadIdx.x);
  if (at.inside) quantize_place(job, at);
}

}  // namespace

int64_t outer_count(const QuantizeJob& job) {
  if (job.domain == Domain::none) return 0;
  if (job.domain == Domain::group) return job.groups.count;
  return job.x.columns ? job.groups.count * job.out.rows : job.out.rows;
}

void nvfp4_groups(const QuantizeJob& job, const Exec& exec) {
  const uint32_t items = item_count("grouped_quantize", job.out.rows * job.out.scale_stride);
  if (const int64_t count = outer_count(job); count > 0) {
    check(cudaMemsetAsync(job.out.amax, 0, static_cast<size_t>(count) * sizeof(float), stream_of(exec)),
          "cudaMemsetAsync");
    amax_kernel<<<blocks(items, kThreads), kThreads, 0, stream_of(exec)>>>(job);
    check(cudaGetLastError(), "grouped_quantize: amax");
  }
  quantize_kernel<<<blocks(items, kThreads), kThreads, 0, stream_of(exec)>>>(job);
  check(cudaGetLastError(), "grouped_quantize");
}

}  // namespace minite::cuda
