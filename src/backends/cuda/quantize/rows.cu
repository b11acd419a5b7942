// NVFP4 along rows of BF16, blocks of a row: to nearest, and the choice among the encoders.
#include <algorithm>

#include "backends/cuda/device.h"
#include "backends/cuda/quantize/rows_run.h"

namespace minite::cuda {
namespace {

constexpr unsigned kAmaxThreads = 512;
constexpr int kVectors = 4;  ///< of 8 elements, of a thread, in flight together

/// The amax of BF16 rows side by side, as bits: exact in any order. Blocks of threads stride over it all.
__global__ void __launch_bounds__(kAmaxThreads) amax_kernel(const uint4* x, int64_t count, unsigned* amax) {
  uint32_t most = 0;
  const int64_t step = int64_t{gridDim.x} * kAmaxThreads;
  for (int64_t first = int64_t{blockIdx.x} * kAmaxThreads + threadIdx.x; first < count;
       first += step * kVectors) {
    uint4 v[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      v[i] = uint4{};
      if (first + i * step < count) v[i] = x[first + i * step];
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) most = larger(most, pair_max(&v[i].x, 4));
  }
  most = block_max(widest(most & 0x7FFF7FFFu));
  if (threadIdx.x == 0) atomicMax(amax, most);
}

constexpr int kGroupRows = 16;  ///< of a block of threads

/// The amaxes of groups of rows. A block of threads walks its rows and writes where a group ends.
__global__ void __launch_bounds__(kAmaxThreads)
    group_amax_kernel(const bf16* x, int64_t stride, int vectors, DeviceGroups groups, unsigned* amax) {
  int r = static_cast<int>(blockIdx.x) * kGroupRows;
  const int end = min(r + kGroupRows, group_begin(groups, groups.count));
  while (r < end) {
    const int group = group_of_row(groups, r), last = min(end, group_begin(groups, group + 1));
    uint32_t most = 0;
    for (; r < last; ++r) {
      const auto* row = reinterpret_cast<const uint4*>(x + r * stride);
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < vectors; i += kAmaxThreads) {
        const uint4 v = row[i];
        most = larger(most, pair_max(&v.x, 4));
      }
    }
    most = __reduce_max_sync(0xFFFFFFFFu, widest(most & 0x7FFF7FFFu));
    if (threadIdx.x % 32 == 0) atomicMax(amax + group, most);
  }
}

void group_amax(const QuantizeJob& job, const TensorView& x, const Exec& exec) {
  const auto groups = static_cast<size_t>(job.groups.count);
  check(cudaMemsetAsync(job.out.amax, 0, groups * sizeof(float), stream_of(exec)), "cudaMemsetAsync");
  group_amax_kernel<<<blocks(static_cast<size_t>(x.rows), kGroupRows), kAmaxThreads, 0, stream_of(exec)>>>(
      x.as<const bf16>(), x.stride, static_cast<int>(x.cols / 8), job.groups,
      reinterpret_cast<unsigned*>(job.out.amax));
  check(cudaGetLastError(), "quantize: amaxes of groups");
}

}  // namespace

void flat_amax(const QuantizeJob& job, int64_t elements, const Exec& exec) {
  const auto full = static_cast<unsigned>(device().multiprocessors) * 4;  // 4 x 512 threads each
  check(cudaMemsetAsync(job.out.amax, 0, sizeof(float), stream_of(exec)), "cudaMemsetAsync");
  const unsigned grid = std::min(full, blocks(static_cast<size_t>(elements / 8), kAmaxThreads));
  amax_kernel<<<grid, kAmaxThreads, 0, stream_of(exec)>>>(static_cast<const uint4*>(job.x.x), elements / 8,
                                                          reinterpret_cast<unsigned*>(job.out.amax));
  check(cudaGetLastError(), "quantize: amax");
}

bool rows_fit(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  return spec.format == FormatId::nvfp4 && spec.blocks == BlockShape::row &&
         args.along == Orientation::rows && args.x.dtype == DType::bf16 && vectors_fit(args.x, 16) &&
         vectors_fit(args.out) && (args.decoded.empty() || vectors_fit(args.decoded, 16));
}

void quantize_rows(const QuantizeArgs& args, const Exec& exec) {
  const QuantSpec& spec = args.out.spec;
  if (spec.search != ScaleSearch::amax) return quantize_rows_searched(args, exec);
  if (spec.rounding == Rounding::stochastic) return quantize_rows_noisy(args, exec);
  const QuantizeJob job = quantize_job(args);
  const auto* x = args.x.as<const bf16>();
  if (args.decoded.empty()) return run_rows<Encoder::nearest>(job, args, Copy<false>{x, args.x.stride}, exec);
  run_rows<Encoder::nearest>(job, args, Copy<true>{x, args.x.stride}, exec);
}

namespace {

/// Rows beyond the last group are not looked at.
template <class Source>
void run_groups(const QuantizeJob& job, const QuantizeArgs& args, const Source& source, const Exec& exec) {
  if (job.domain == Domain::row && job.out.scale_stride <= kLongestRow)
    return quantize_own_scale(job, source, exec);
  job.domain == Domain::group ? group_amax(job, args.x, exec) : nvfp4_amax(job, exec);
  quantize_given_scale(job, source, exec);
}

}  // namespace

void quantize_rows(const QuantizeArgs& args, const DeviceGroups& groups, const Exec& exec) {
  QuantizeJob job = quantize_job(args);
  job.groups = groups;
  if (args.out.spec.outer == OuterScale::expert) job.domain = Domain::group;
  const auto* x = args.x.as<const bf16>();
  if (args.decoded.empty()) return run_groups(job, args, Copy<false>{x, args.x.stride}, exec);
  run_groups(job, args, Copy<true>{x, args.x.stride}, exec);
}

}  // namespace minite::cuda
