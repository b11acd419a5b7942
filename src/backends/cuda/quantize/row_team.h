#pragma once
// NVFP4 codes of rows of BF16 in one pass: a team of threads owns a row and keeps it in registers, so that
// the row's amax needs no second look at memory. For .cu files only.
//
// A Source says where a block of a row comes from: `uint4`-aligned x, or an op computed on the way.
//   __device__ Words8 operator()(int64_t r, int64_t b) const;
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/encode16.h"

namespace minite::cuda {

__device__ inline Words8 load_words(const bf16* at) {
  const auto* p = reinterpret_cast<const uint4*>(at);
  const uint4 a = p[0], b = p[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
__device__ inline void store_words(bf16* at, const Words8& x) {
  auto* p = reinterpret_cast<uint4*>(at);
  p[0] = {x.w[0], x.w[1], x.w[2], x.w[3]};
  p[1] = {x.w[4], x.w[5], x.w[6], x.w[7]};
}

inline constexpr int kRowCta = 128;  ///< threads, unless a team is larger

/// The largest value of the threads of a team, for every one of them. All threads of the block call it.
template <int kTeam>
__device__ inline uint32_t team_max(uint32_t value) {
  value = __reduce_max_sync(0xFFFFFFFFu, value);
  if constexpr (kTeam > 32) {
    __shared__ uint32_t part[32];
    const unsigned warp = threadIdx.x / 32, first = threadIdx.x / kTeam * (kTeam / 32);
    if (threadIdx.x % 32 == 0) part[warp] = value;
    __syncthreads();
    value = part[first];
#pragma unroll
    for (int i = 1; i < kTeam / 32; ++i) value = max(value, part[first + i]);
  }
  return value;
}

/// Rows whose outer scale is their own. kBlocks blocks a thread, kTeam apart.
template <int kTeam, int kBlocks, class Source>
__global__ void __launch_bounds__(kTeam > kRowCta ? kTeam : kRowCta)
    own_scale_kernel(QuantizeJob job, Source source) {
  const int64_t r = int64_t{blockIdx.x} * (blockDim.x / kTeam) + threadIdx.x / kTeam;
  const auto per_row = static_cast<int>(job.out.scale_stride);
  const int lane = static_cast<int>(threadIdx.x % kTeam);
  const bool inside = r < job.out.rows;
  Words8 x[kBlocks];
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (inside && lane + i * kTeam < per_row) x[i] = source(r, lane + i * kTeam);
  }
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (inside && lane + i * kTeam < per_row) most = __vmaxu2(most, pair_max(x[i].w, 8));
  }
  const float amax = __uint_as_float(team_max<kTeam>(widest(most)));
  if (!inside) return;
  const Outer outer = outer_scale(amax, job.range);
  if (lane == 0) {
    job.out.amax[r] = amax;
    job.out.outer[r] = outer.s_dec;
  }
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (lane + i * kTeam < per_row)
      finish_block(job, r, lane + i * kTeam, x[i], outer.s_enc * kSixth, outer.s_dec);
  }
}

/// Rows without an outer scale, or whose amax is known. Blocks of threads walk a row; rows side by side in
/// memory come as one.
template <int kBlocks, class Source>
__global__ void __launch_bounds__(kRowCta) given_scale_kernel(QuantizeJob job, Source source) {
  const int64_t first = int64_t{blockIdx.x} * (kRowCta * kBlocks) + threadIdx.x;
  for (int64_t r = blockIdx.y; r < job.out.rows; r += gridDim.y) {
    Words8 x[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (first + i * kRowCta < job.out.scale_stride) x[i] = source(r, first + i * kRowCta);
    }
    const Outer outer = outer_of(job, r);
    if (first == 0) store_outer(job, {r, 0, true}, outer);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (first + i * kRowCta < job.out.scale_stride)
        finish_block(job, r, first + i * kRowCta, x[i], outer.s_enc * kSixth, outer.s_dec);
    }
  }
}

/// Longest row, in blocks, that a team holds.
inline constexpr int64_t kLongestRow = 512 * 4;

template <int kTeam, int kBlocks, class Source>
void launch_team(const QuantizeJob& job, const Source& source, cudaStream_t stream) {
  constexpr int kThreads = kTeam > kRowCta ? kTeam : kRowCta;
  const unsigned grid = blocks(static_cast<size_t>(job.out.rows), kThreads / kTeam);
  own_scale_kernel<kTeam, kBlocks><<<grid, kThreads, 0, stream>>>(job, source);
}

/// Codes of rows with their own outer scales; scale_stride is at most kLongestRow.
template <class Source>
void quantize_own_scale(const QuantizeJob& job, const Source& source, const Exec& exec) {
  const int64_t per_row = job.out.scale_stride;
  const cudaStream_t stream = stream_of(exec);
  if (per_row <= 32) {
    launch_team<32, 1>(job, source, stream);
  } else if (per_row <= 64) {
    launch_team<32, 2>(job, source, stream);
  } else if (per_row <= 128) {
    launch_team<64, 2>(job, source, stream);
  } else if (per_row <= 256) {
    launch_team<128, 2>(job, source, stream);
  } else if (per_row <= 512) {
    launch_team<256, 2>(job, source, stream);
  } else if (per_row <= 1024) {
    launch_team<512, 2>(job, source, stream);
  } else {
    launch_team<512, 4>(job, source, stream);
  }
  check(cudaGetLastError(), "quantize rows");
}

/// Codes under amaxes that are known, or without outer scales.
template <class Source>
void quantize_given_scale(QuantizeJob job, const Source& source, const Exec& exec) {
  constexpr int kBlocks = 2;
  const unsigned wide = blocks(static_cast<size_t>(job.out.scale_stride), kRowCta * kBlocks);
  const dim3 grid(wide, static_cast<unsigned>(job.out.rows < 65535 ? job.out.rows : 65535));
  given_scale_kernel<kBlocks><<<grid, kRowCta, 0, stream_of(exec)>>>(job, source);
  check(cudaGetLastError(), "quantize rows");
}

}  // namespace minite::cuda
