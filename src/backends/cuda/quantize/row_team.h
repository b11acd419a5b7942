#pragma once
// NVFP4 codes of rows of BF16 in one pass: a team of threads owns a row and keeps it in registers, so that
// the row's amax needs no second look at memory. For .cu files only.
//
// A Source says where a block of a row comes from: `uint4`-aligned x, or an op computed on the way.
//   __device__ Words8 operator()(int64_t r, int64_t b) const;
//   static constexpr bool kDecoded: whether decoded values may be wanted beside the codes
//   static constexpr bool kWarpRows: whether a warp should own rows of 97 to 160 blocks
//   static constexpr int64_t kPairsUpTo: longest row, in blocks, with two blocks a thread instead of four
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/search16.h"

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

inline constexpr int kRowCta = 128;  ///< threads where rows do not set their number
inline constexpr int kTeamLimit = 512;

/// Whether a thread owns block lane + i * team of its row.
struct Team {
  int lane, size, per_row;
  __device__ bool owns(int i) const { return lane + i * size < per_row; }
};

/// The blocks of row r that a thread owns, and the largest magnitude among them.
template <int kBlocks, class Source>
__device__ inline uint32_t load_team(const Team& team, const Source& source, int64_t r, Words8* x) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (team.owns(i)) x[i] = source(r, team.lane + i * team.size);
  }
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (team.owns(i)) most = larger(most, pair_max(x[i].w, 8));
  }
  return widest(most & 0x7FFF7FFFu);
}
/// Block b of row r by an encoder.
template <Encoder kEncoder>
__device__ inline void finish_with(const QuantizeJob& job, const BlockPlace& to, int64_t r, int64_t b,
                                   const Words8& x, const Outer& outer) {
  if constexpr (kEncoder == Encoder::nearest) {
    finish_block(to, x, outer.s_enc * kSixth, outer.s_dec);
  } else if constexpr (kEncoder == Encoder::noise) {
    finish_noisy_block(job, to, r * job.out.scale_stride + b, x, outer.s_enc * kSixth, outer.s_dec);
  } else {
    finish_searched_block<kEncoder == Encoder::squares>(job, to, x, outer);
  }
}
/// Outer scale, block scales and codes of row r, whose amax is known.
template <int kBlocks, bool kDecoded, Encoder kEncoder = Encoder::nearest>
__device__ inline void finish_row(const QuantizeJob& job, const Team& team, int64_t r, const Words8* x,
                                  float amax) {
  const Outer outer = outer_scale(amax, job.range);
  if (team.lane == 0) {
    job.out.amax[r] = amax;
    job.out.outer[r] = outer.s_dec;
  }
  BlockPlace to = block_place(job, r, team.lane);
  if (!kDecoded) to.decoded = nullptr;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (team.owns(i))
      finish_with<kEncoder>(job, to.at(i * team.size), r, team.lane + i * team.size, x[i], outer);
  }
}

/// The largest value of a block of threads, for every one of them.
__device__ inline uint32_t block_max(uint32_t value) {
  __shared__ uint32_t part[32];
  value = __reduce_max_sync(0xFFFFFFFFu, value);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  return __reduce_max_sync(0xFFFFFFFFu, lane < blockDim.x / 32 ? part[lane] : 0);
}

/// A warp a row.
template <int kBlocks, Encoder kEncoder, class Source>
__global__ void __launch_bounds__(kRowCta) warp_row_kernel(QuantizeJob job, Source source) {
  const int64_t r = int64_t{blockIdx.x} * (kRowCta / 32) + threadIdx.x / 32;
  if (r >= rows_of(job)) return;
  const Team team = {static_cast<int>(threadIdx.x % 32), 32, static_cast<int>(job.out.scale_stride)};
  Words8 x[kBlocks];
  const uint32_t most = __reduce_max_sync(0xFFFFFFFFu, load_team<kBlocks>(team, source, r, x));
  finish_row<kBlocks, Source::kDecoded, kEncoder>(job, team, r, x, __uint_as_float(most));
}
/// A block of threads a row.
template <int kBlocks, Encoder kEncoder, class Source>
__global__ void __launch_bounds__(kTeamLimit) __maxnreg__(32 + 8 * kBlocks)
    block_row_kernel(QuantizeJob job, Source source) {
  const int64_t r = blockIdx.x;
  if (r >= rows_of(job)) return;
  const Team team = {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                     static_cast<int>(job.out.scale_stride)};
  Words8 x[kBlocks];
  const uint32_t most = block_max(load_team<kBlocks>(team, source, r, x));
  finish_row<kBlocks, Source::kDecoded, kEncoder>(job, team, r, x, __uint_as_float(most));
}

/// Rows without an outer scale, or whose amax is known. Blocks of threads walk a row; rows side by side in
/// memory come as one.
template <int kBlocks, Encoder kEncoder, class Source>
__global__ void __launch_bounds__(kRowCta) given_scale_kernel(QuantizeJob job, Source source) {
  const int64_t first = int64_t{blockIdx.x} * (kRowCta * kBlocks) + threadIdx.x;
  const int64_t rows = rows_of(job);
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    Words8 x[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (first + i * kRowCta < job.out.scale_stride) x[i] = source(r, first + i * kRowCta);
    }
    const Outer outer = outer_of(job, r);
    if (first == 0) store_outer(job, {r, 0, true}, outer);
    BlockPlace to = block_place(job, r, first);
    if (!Source::kDecoded) to.decoded = nullptr;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (first + i * kRowCta < job.out.scale_stride)
        finish_with<kEncoder>(job, to.at(i * kRowCta), r, first + i * kRowCta, x[i], outer);
    }
  }
}

/// A source that stores what it makes, without codes.
template <int kBlocks, class Source>
__global__ void __launch_bounds__(kRowCta) produce_kernel(int64_t rows, int64_t per_row, Source source) {
  const int64_t first = int64_t{blockIdx.x} * (kRowCta * kBlocks) + threadIdx.x;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (first + i * kRowCta < per_row) (void)source(r, first + i * kRowCta);
    }
  }
}

/// A grid of blocks of threads over rows of `per_row` blocks, kBlocks a thread.
inline dim3 row_grid(int64_t rows, int64_t per_row, int per_thread) {
  constexpr int64_t kMost = 65535;  ///< of a grid's second dimension
  return dim3(blocks(static_cast<size_t>(per_row), static_cast<unsigned>(kRowCta * per_thread)),
              static_cast<unsigned>(rows < kMost ? rows : kMost));
}
template <class Source>
void produce(int64_t rows, int64_t per_row, const Source& source, const Exec& exec) {
  constexpr int kBlocks = 2;
  produce_kernel<kBlocks>
      <<<row_grid(rows, per_row, kBlocks), kRowCta, 0, stream_of(exec)>>>(rows, per_row, source);
  check(cudaGetLastError(), "rows");
}

/// Longest row, in blocks, that a team holds.
inline constexpr int64_t kLongestRow = kTeamLimit * 4;

template <int kBlocks, Encoder kEncoder, class Source>
void launch_block_rows(const QuantizeJob& job, const Source& source, cudaStream_t stream) {
  const unsigned warps = blocks(static_cast<size_t>(job.out.scale_stride), 32 * kBlocks);
  block_row_kernel<kBlocks, kEncoder>
      <<<static_cast<unsigned>(job.out.rows), 32 * warps, 0, stream>>>(job, source);
}
template <int kBlocks, Encoder kEncoder, class Source>
void launch_warp_rows(const QuantizeJob& job, const Source& source, cudaStream_t stream) {
  const unsigned grid = blocks(static_cast<size_t>(job.out.rows), kRowCta / 32);
  warp_row_kernel<kBlocks, kEncoder><<<grid, kRowCta, 0, stream>>>(job, source);
}

/// Whether two blocks a thread leave more than a tenth of a team idle, and one block does not.
inline bool one_block_fits_better(int64_t per_row) {
  const int64_t idle = 64 * blocks(static_cast<size_t>(per_row), 64) - per_row;
  return per_row <= kTeamLimit && 10 * idle > per_row;
}

/// Codes of rows with their own outer scales; scale_stride is at most kLongestRow. A warp a row waits for no
/// other warp, as long as its registers hold the row.
template <Encoder kEncoder = Encoder::nearest, class Source>
void quantize_own_scale(const QuantizeJob& job, const Source& source, const Exec& exec) {
  const int64_t per_row = job.out.scale_stride;
  const cudaStream_t stream = stream_of(exec);
  if (per_row <= 32) {
    launch_warp_rows<1, kEncoder>(job, source, stream);
  } else if (per_row <= 64) {
    launch_warp_rows<2, kEncoder>(job, source, stream);
  } else if (Source::kWarpRows && per_row > 96 && per_row <= 160) {
    launch_warp_rows<5, kEncoder>(job, source, stream);
  } else if (one_block_fits_better(per_row)) {
    launch_block_rows<1, kEncoder>(job, source, stream);
  } else if (per_row <= Source::kPairsUpTo) {
    launch_block_rows<2, kEncoder>(job, source, stream);
  } else {
    launch_block_rows<4, kEncoder>(job, source, stream);
  }
  check(cudaGetLastError(), "quantize rows");
}

/// Codes under amaxes that are known, or without outer scales.
template <Encoder kEncoder = Encoder::nearest, class Source>
void quantize_given_scale(QuantizeJob job, const Source& source, const Exec& exec) {
  constexpr int kBlocks = 2;
  const dim3 grid = row_grid(job.out.rows, job.out.scale_stride, kBlocks);
  given_scale_kernel<kBlocks, kEncoder><<<grid, kRowCta, 0, stream_of(exec)>>>(job, source);
  check(cudaGetLastError(), "quantize rows");
}

}  // namespace minite::cuda
