#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/quantize/amax.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

constexpr int kThreads = 256, kTogether = 4;  ///< blocks of threads of a multiprocessor
constexpr int kLines = kThreads / 32;         ///< rows that a block of threads reads side by side
constexpr int kCols = 256;                    ///< a warp reads a row by vectors of 8
constexpr int kAhead = 4;                     ///< vectors of a thread in a band
constexpr int kBand = kLines * kAhead;        ///< rows

/// Where the amaxes of a pass go, or nullptr: one a row, one a column, one for all (of either quantization).
struct Amaxes {
  unsigned *rows, *columns, *all[2];
};
/// What is set to 0 before.
struct Clear {
  unsigned* to[2];
  int64_t count[2];
};

__global__ void __launch_bounds__(kThreads) clear_kernel(Clear job) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    if (i < job.count[k]) job.to[k][i] = 0;
  }
}

/// What a thread reads of rows first, first + kLines, ...; zeros outside.
__device__ inline void read_ahead(const Matrix& m, int64_t first, int64_t c, uint4* v) {
  const bf16* x = m.x + first * m.stride + c;
#pragma unroll
  for (int i = 0; i < kAhead; ++i, x += kLines * m.stride) {
    v[i] = uint4{};
    if (first + kLines * i < m.rows && c < m.cols) v[i] = *reinterpret_cast<const uint4*>(x);
  }
}

/// Blocks of threads take bands of rows in turn; the next band is on its way while one is looked at. Bit
/// patterns of magnitudes order like the magnitudes, so atomic maxima are exact in any order.
__global__ void __launch_bounds__(kThreads, kTogether) amax_kernel(Matrix m, Amaxes to) {
  __shared__ uint32_t part[kLines][kCols / 2];
  const int lane = static_cast<int>(threadIdx.x) % 32, line = static_cast<int>(threadIdx.x) / 32;
  const int64_t c = int64_t{blockIdx.x} * kCols + 8 * lane, step = int64_t{gridDim.y} * kBand;
  uint32_t most[4] = {};
  uint4 now[kAhead], next[kAhead];
  int64_t first = int64_t{blockIdx.y} * kBand + line;
  read_ahead(m, first, c, next);
  for (; first < m.rows; first += step) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) now[i] = next[i];
    read_ahead(m, first + step, c, next);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const uint32_t w[4] = {now[i].x, now[i].y, now[i].z, now[i].w};
#pragma unroll
      for (int k = 0; k < 4; ++k) most[k] = larger(most[k], w[k]);
      if (to.rows == nullptr) continue;
      const uint32_t row = __reduce_max_sync(0xFFFFFFFFu, widest(pair_max(w, 4)));
      const int64_t r = first + kLines * i;
      if (lane == 0 && r < m.rows) atomicMax(to.rows + r, row);
    }
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) part[line][4 * lane + k] = most[k];
  __syncthreads();
  const int word = static_cast<int>(threadIdx.x);
  uint32_t pair = 0;
  for (int i = 0; i < kLines && word < kCols / 2; ++i) pair = larger(pair, part[i][word]);
  pair &= 0x7FFF7FFFu;
  const int64_t column = int64_t{blockIdx.x} * kCols + 2 * word;
  if (to.columns != nullptr && word < kCols / 2 && column < m.cols) {
    atomicMax(to.columns + column, pair << 16);
    atomicMax(to.columns + column + 1, pair & 0xFFFF0000u);
  }
  const uint32_t all = block_max(widest(pair));
  for (unsigned* one : to.all) {
    if (one != nullptr && threadIdx.x == 0) atomicMax(one, all);
  }
}

void launch(const Matrix& m, const Clear& clear, const Amaxes& to, const Exec& exec) {
  const cudaStream_t stream = stream_of(exec);
  const auto cleared = static_cast<size_t>(std::max(clear.count[0], clear.count[1]));
  clear_kernel<<<blocks(cleared, kThreads), kThreads, 0, stream>>>(clear);
  // One wave of blocks of threads, unless there are fewer bands of rows.
  const unsigned strips = blocks(static_cast<size_t>(m.cols), kCols),
                 bands = blocks(static_cast<size_t>(m.rows), kBand),
                 slots = std::max(1u, static_cast<unsigned>(device().multiprocessors * kTogether) / strips);
  amax_kernel<<<dim3(strips, std::min(bands, slots)), kThreads, 0, stream>>>(m, to);
  check(cudaGetLastError(), "quantize: amaxes");
}

}  // namespace

void matrix_amaxes(const Matrix& m, const QuantizeJob* rows, const QuantizeJob* columns, const Exec& exec) {
  Amaxes to = {};
  Clear clear = {};
  for (const QuantizeJob* job : {rows, columns}) {
    if (job == nullptr || job->domain == Domain::none) continue;
    if (job->x.rotated) {
      nvfp4_amax(*job, exec);
      continue;
    }
    const int side = job == rows ? 0 : 1;
    auto* amax = reinterpret_cast<unsigned*>(job->out.amax);
    clear.to[side] = amax;
    clear.count[side] = job->domain == Domain::row ? job->out.rows : 1;
    (job->domain == Domain::tensor ? to.all[side] : side == 0 ? to.rows : to.columns) = amax;
  }
  if (clear.count[0] + clear.count[1] > 0) launch(m, clear, to, exec);
}

}  // namespace minite::cuda
