// NVFP4 with every option of convention te, for any shape, stride and orientation: a thread owns a block of
// 16. Outer amaxes come from a pass before. rows.cu and both.cu are the fast paths.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/nvfp4.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 128;

/// Whether neighbouring lanes own neighbouring rows: tiles need it, and rows of x^T lie side by side in x.
bool down(const QuantizeJob& job) { return job.tile || job.x.columns; }

uint32_t items(const QuantizeJob& job) {
  const int64_t rows = down(job) ? (job.out.rows + 15) / 16 * 16 : job.out.rows;
  return item_count("quantize", rows * job.out.scale_stride);
}

__global__ void __launch_bounds__(kThreads) amax_kernel(QuantizeJob job, bool down) {
  const Place at = place<16>(blockIdx.x * kThreads + threadIdx.x, job.out, down);
  uint32_t most = 0;
  if (at.inside) {
    float v[16];
    load_block<16>(job.x, at.r, at.b * 16, v);
    most = amax_bits<16>(v);
  }
  // The maximum of bit patterns is exact in any order.
  auto* amax = reinterpret_cast<unsigned*>(job.out.amax);
  if (job.domain == Domain::row) {
    if (at.inside) atomicMax(amax + at.r, most);
    return;
  }
  most = __reduce_max_sync(0xFFFFFFFFu, most);
  if (threadIdx.x % 32 == 0) atomicMax(amax, most);
}

__global__ void __launch_bounds__(kThreads) quantize_kernel(QuantizeJob job, bool down) {
  quantize_place(job, place<16>(blockIdx.x * kThreads + threadIdx.x, job.out, down));
}

}  // namespace

void nvfp4_amax(const QuantizeJob& job, const Exec& exec) {
  if (job.domain == Domain::none) return;
  const size_t count = job.domain == Domain::row ? static_cast<size_t>(job.out.rows) : 1;
  check(cudaMemsetAsync(job.out.amax, 0, count * sizeof(float), stream_of(exec)), "cudaMemsetAsync");
  amax_kernel<<<blocks(items(job), kThreads), kThreads, 0, stream_of(exec)>>>(job, down(job));
  check(cudaGetLastError(), "quantize: amax");
}

void nvfp4_quantize(const QuantizeJob& job, const Exec& exec) {
  quantize_kernel<<<blocks(items(job), kThreads), kThreads, 0, stream_of(exec)>>>(job, down(job));
  check(cudaGetLastError(), "quantize");
}

}  // namespace minite::cuda
