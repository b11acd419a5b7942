// NVFP4 along rows with an outer scale a row, and the amaxes of the columns on the way: what quantizing both
// ways needs before it can quantize columns. Blocks of threads stay; a thread keeps its columns' maxima.
#include <algorithm>

#include "backends/cuda/device.h"
#include "backends/cuda/quantize/rows_run.h"

namespace minite::cuda {
namespace {

constexpr int kBlocks = 2;  ///< of a thread

/// Loads the blocks of row r that a thread owns; nothing past the last row.
__device__ inline void read_row(const QuantizeJob& job, const Copy<false>& source, const Team& team,
                                int64_t r, Words8* x) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (r < job.out.rows && team.owns(i)) x[i] = source(r, team.lane + i * team.size);
  }
}

/// Adds a thread's maxima to those of all columns; lanes take neighbouring columns.
__device__ inline void store_columns(const Team& team, const Words8* most, uint32_t* words,
                                     unsigned* columns) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (!team.owns(i)) continue;
    auto* to = reinterpret_cast<uint4*>(words + 8 * (team.lane + i * team.size));
    const Words8& m = most[i];
    to[0] = {m.w[0], m.w[1], m.w[2], m.w[3]};
    to[1] = {m.w[4], m.w[5], m.w[6], m.w[7]};
  }
  __syncthreads();
  for (int w = team.lane; w < 8 * team.per_row; w += team.size) {
    const uint32_t pair = words[w] & 0x7FFF7FFFu;
    atomicMax(columns + 2 * w, pair << 16);
    atomicMax(columns + 2 * w + 1, pair & 0xFFFF0000u);
  }
}

__global__ void __maxnreg__(80)
    rows_kernel(const __grid_constant__ QuantizeJob job, Copy<false> source, unsigned* columns) {
  extern __shared__ uint4 shared[];
  __shared__ uint32_t part[2][kTeamLimit / 32];
  const Team team = {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                     static_cast<int>(job.out.scale_stride)};
  const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
  Words8 now[kBlocks], next[kBlocks], most[kBlocks] = {};
  int turn = 0;
  read_row(job, source, team, blockIdx.x, next);
  for (int64_t r = blockIdx.x; r < job.out.rows; r += gridDim.x, turn ^= 1) {
    uint32_t row = 0;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) now[i] = next[i];
    read_row(job, source, team, r + gridDim.x, next);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (!team.owns(i)) continue;
      row = larger(row, pair_max(now[i].w, 8));
#pragma unroll
      for (int k = 0; k < 8; ++k) most[i].w[k] = larger(most[i].w[k], now[i].w[k]);
    }
    // A part is written again two rows later, when all have passed the barrier between.
    const uint32_t own = __reduce_max_sync(0xFFFFFFFFu, widest(row & 0x7FFF7FFFu));
    if (lane == 0) part[turn][threadIdx.x / 32] = own;
    __syncthreads();
    const uint32_t all = __reduce_max_sync(0xFFFFFFFFu, lane < warps ? part[turn][lane] : 0);
    finish_row<kBlocks, false>(job, team, r, now, __uint_as_float(all));
  }
  store_columns(team, most, reinterpret_cast<uint32_t*>(shared), columns);
}

}  // namespace

bool rows_amax_fit(const QuantizeArgs& rows) {
  const int64_t per_row = rows.out.scale_stride();
  return rows_fit(rows) && rows.decoded.empty() && rows.out.spec.search == ScaleSearch::amax &&
         rows.out.spec.rounding == Rounding::nearest && domain_of(rows.out.spec) == Domain::row &&
         per_row >= 32 && per_row <= kTeamLimit * kBlocks;
}

void quantize_rows_amax(const QuantizeArgs& rows, float* columns, const Exec& exec) {
  const QuantizeJob job = quantize_job(rows);
  const cudaStream_t stream = stream_of(exec);
  check(cudaMemsetAsync(columns, 0, static_cast<size_t>(rows.x.cols) * sizeof(float), stream),
        "cudaMemsetAsync");
  const int per_row = static_cast<int>(job.out.scale_stride),
            threads = static_cast<int>(32 * blocks(static_cast<size_t>(per_row), 32 * kBlocks));
  const auto bytes = static_cast<size_t>(per_row) * sizeof(Words8);
  int together = 1;  // blocks of threads that a multiprocessor holds
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, rows_kernel, threads, bytes),
        "quantize rows");
  const int64_t grid =
      std::min<int64_t>(job.out.rows, int64_t{device().multiprocessors} * std::max(together, 1));
  rows_kernel<<<static_cast<unsigned>(grid), static_cast<unsigned>(threads), bytes, stream>>>(
      job, {rows.x.as<const bf16>(), rows.x.stride}, reinterpret_cast<unsigned*>(columns));
  check(cudaGetLastError(), "quantize rows");
}

}  // namespace minite::cuda
