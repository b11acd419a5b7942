// A block of threads owns a tile of 128 x 128 in shared memory, quantizes blocks of its rows from there, then
// blocks of its columns, two columns a thread. The loops are not unrolled: the code of one block is long, and
// several blocks of threads share a multiprocessor to hide each other's waiting.
#include "backends/cuda/common/copy_async.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/both.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

constexpr int kTile = 128, kThreads = 256;
constexpr int kWords = kTile / 2;    ///< of a row of the tile
constexpr int kGroups = kTile / 16;  ///< blocks of a row or column of the tile
struct Matrix {
  const bf16* x;
  int64_t stride, rows, cols;
};

/// Place of word w of row r of the tile. The eight blocks of a column lie 16 rows apart, which is a multiple
/// of 32 banks: each takes banks of its own by the exclusive or. Vectors of four words stay together.
__device__ uint32_t word_at(uint32_t r, uint32_t w) { return r * kWords + (w ^ (r / 16 % 8 * 4)); }

/// Lines of a tile that lie inside, of `count` lines in all.
__device__ uint32_t inside(int64_t count, int64_t begin) {
  return static_cast<uint32_t>(count - begin < kTile ? count - begin : kTile);
}

/// Starts the copies of a tile: 16 threads a row, 16 rows a turn.
__device__ void fetch_tile(const Matrix& m, int64_t top, int64_t left, uint32_t* tile) {
  const uint32_t vector = threadIdx.x % 16, first = threadIdx.x / 16, rows = inside(m.rows, top);
  if (left + 8 * vector >= m.cols) return;
  const bf16* from = m.x + (top + first) * m.stride + left + 8 * vector;
#pragma unroll
  for (uint32_t i = 0; i < kTile / 16; ++i, from += 16 * m.stride) {
    if (first + 16 * i < rows) copy_async(tile + (first + 16 * i) * kWords + (4 * vector ^ 4 * i), from);
  }
}

/// fl(S_enc * fl(1/6)) and S_dec of a row or column of the tile.
struct LineScale {
  float sixth, s_dec;
};
/// Of line `r` of an operand; the blocks of threads at its start also store it.
__device__ LineScale line_scale(const QuantizeJob& job, int64_t r, bool at_start) {
  if (r >= job.out.rows) return {};
  const Outer outer = outer_of(job, r);
  if (at_start) store_outer(job, {r, 0, true}, outer);
  return {outer.s_enc * kSixth, outer.s_dec};
}

__device__ void quantize_tile_rows(const Matrix& m, const QuantizeJob& job, int64_t top, int64_t left,
                                   const uint32_t* tile, const LineScale* scales) {
  constexpr uint32_t kStep = kThreads / kGroups;  // rows
  const uint32_t b = threadIdx.x % kGroups, first = threadIdx.x / kGroups, rows = inside(m.rows, top);
  if (left + 16 * b >= m.cols) return;
  BlockPlace to = block_place(job, top + first, left / 16 + b);
#pragma unroll 1
  for (uint32_t row = first; row < rows; row += kStep) {
    const uint4 x = *reinterpret_cast<const uint4*>(tile + word_at(row, 8 * b));
    const uint4 y = *reinterpret_cast<const uint4*>(tile + word_at(row, 8 * b + 4));
    finish_block(to, {{x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w}}, scales[row].sixth, scales[row].s_dec);
    to.scale += kStep * job.out.scale_stride;
    to.codes += kStep * job.out.code_stride;
    if (to.decoded != nullptr) to.decoded += kStep * job.decoded_stride;
  }
}

/// One column's block of a rotated operand.
__device__ Words8 rotated(const uint32_t* w, bool upper) {
  float v[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = upper ? high(w[i]) : low(w[i]);
  hadamard(v);
  Words8 z;
#pragma unroll
  for (int i = 0; i < 8; ++i) z.w[i] = pack_bf16(v[2 * i], v[2 * i + 1]);
  return z;
}

/// Two columns a turn; eight lanes write 64 bytes of a row of codes.
template <bool kRotated>
__device__ void quantize_tile_columns(const QuantizeJob& job, int64_t top, int64_t left, const uint32_t* tile,
                                      const LineScale* scales) {
  constexpr uint32_t kStep = kThreads / kGroups;  // words
  const uint32_t group = threadIdx.x % kGroups, words = inside(job.x.rows, left) / 2;
  if (top + 16 * group >= job.x.cols) return;
  uint32_t word = threadIdx.x / kGroups;
  BlockPlace to = block_place(job, left + 2 * word, top / 16 + group);
#pragma unroll 1
  for (; word < words; word += kStep) {
    uint32_t w[16];
    const uint32_t* from = tile + word_at(16 * group, word);
#pragma unroll
    for (int k = 0; k < 16; ++k) w[k] = add_zero(from[k * kWords]);
    const uint32_t most = pair_max(w, 16);
    uint2 signs[2];
    signs_across(w, signs[0].x, signs[1].x);
    signs_across(w + 8, signs[0].y, signs[1].y);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const LineScale line = scales[2 * word + h];
      const BlockPlace here = {to.scale + h * job.out.scale_stride, to.codes + h * job.out.code_stride,
                               to.decoded == nullptr ? nullptr : to.decoded + h * job.decoded_stride};
      if (kRotated) {
        finish_block(here, rotated(w, h == 1), line.sixth, line.s_dec);
      } else {
        const float amax = __uint_as_float(h == 0 ? most << 16 : most & 0xFFFF0000u);
        const FastScale scale = fast_scale(amax * line.sixth, line.s_dec);
        store_block(here, scale, encode_across(w, h == 1, amax, scale.divisor, signs[h]));
      }
    }
    to.scale += 2 * kStep * job.out.scale_stride;
    to.codes += 2 * kStep * job.out.code_stride;
    if (to.decoded != nullptr) to.decoded += 2 * kStep * job.decoded_stride;
  }
}

template <bool kRows, bool kRotated>
__global__ void __launch_bounds__(kThreads, 4) tile_kernel(Matrix m, QuantizeJob rows, QuantizeJob columns) {
  __shared__ uint4 tile[kTile * kWords / 4];
  __shared__ LineScale row_scales[kTile], column_scales[kTile];
  auto* words = reinterpret_cast<uint32_t*>(tile);
  const int64_t top = int64_t{blockIdx.y} * kTile, left = int64_t{blockIdx.x} * kTile;
  fetch_tile(m, top, left, words);
  const int line = static_cast<int>(threadIdx.x) % kTile;
  if (threadIdx.x >= kTile) {
    column_scales[line] = line_scale(columns, left + line, top == 0);
  } else if (kRows) {
    row_scales[line] = line_scale(rows, top + line, left == 0);
  }
  wait_for_copies();
  __syncthreads();
  if (kRows) quantize_tile_rows(m, rows, top, left, words, row_scales);
  quantize_tile_columns<kRotated>(columns, top, left, words, column_scales);
}

// --- amaxes ----------------------------------------------------------------------------------------

constexpr int kAmaxRows = 128,
              kAmaxCols = 256;  ///< of a block of threads; a warp reads a row by vectors of 8

/// Where the amaxes of a pass go, or nullptr: one a row, one a column, one for all (of either quantization).
struct Amaxes {
  unsigned *rows, *columns, *all[2];
};

__global__ void __launch_bounds__(kThreads) amax_kernel(Matrix m, Amaxes to) {
  __shared__ uint32_t part[kThreads / 32][kAmaxCols / 2];
  const int lane = static_cast<int>(threadIdx.x) % 32, line = static_cast<int>(threadIdx.x) / 32;
  const int64_t top = int64_t{blockIdx.y} * kAmaxRows, c = int64_t{blockIdx.x} * kAmaxCols + 8 * lane;
  uint32_t most[4] = {};
#pragma unroll 8
  for (int i = 0; i < kAmaxRows / 8; ++i) {
    const int64_t r = top + line + 8 * i;
    uint4 v = {};
    if (r < m.rows && c < m.cols) v = *reinterpret_cast<const uint4*>(m.x + r * m.stride + c);
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) most[k] = larger(most[k], w[k]);
    if (to.rows == nullptr) continue;
    const uint32_t row = __reduce_max_sync(0xFFFFFFFFu, widest(pair_max(w, 4)));
    if (lane == 0 && r < m.rows) atomicMax(to.rows + r, row);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) part[line][4 * lane + k] = most[k];
  __syncthreads();
  const int word = static_cast<int>(threadIdx.x);
  uint32_t pair = 0;
  for (int i = 0; i < kThreads / 32 && word < kAmaxCols / 2; ++i) pair = larger(pair, part[i][word]);
  pair &= 0x7FFF7FFFu;
  const int64_t column = int64_t{blockIdx.x} * kAmaxCols + 2 * word;
  if (to.columns != nullptr && word < kAmaxCols / 2 && column < m.cols) {
    atomicMax(to.columns + column, pair << 16);
    atomicMax(to.columns + column + 1, pair & 0xFFFF0000u);
  }
  const uint32_t all = block_max(widest(pair));
  for (unsigned* one : to.all) {
    if (one != nullptr && threadIdx.x == 0) atomicMax(one, all);
  }
}

void clear(const QuantizeJob& job, const Exec& exec) {
  const size_t count = job.domain == Domain::row ? static_cast<size_t>(job.out.rows) : 1;
  check(cudaMemsetAsync(job.out.amax, 0, count * sizeof(float), stream_of(exec)), "cudaMemsetAsync");
}

/// Outer amaxes of both, from one look at x. A rotated operand has amaxes of its own values.
void both_amaxes(const Matrix& m, const QuantizeJob* rows, const QuantizeJob* columns, const Exec& exec) {
  Amaxes to = {};
  bool any = false;
  for (const QuantizeJob* job : {rows, columns}) {
    if (job == nullptr || job->domain == Domain::none) continue;
    if (job->x.rotated) {
      nvfp4_amax(*job, exec);
      continue;
    }
    any = true;
    clear(*job, exec);
    unsigned*& place = job->domain == Domain::tensor ? to.all[job == rows ? 0 : 1]
                       : job == rows                 ? to.rows
                                                     : to.columns;
    place = reinterpret_cast<unsigned*>(job->out.amax);
  }
  if (!any) return;
  const dim3 grid(blocks(static_cast<size_t>(m.cols), kAmaxCols),
                  blocks(static_cast<size_t>(m.rows), kAmaxRows));
  amax_kernel<<<grid, kThreads, 0, stream_of(exec)>>>(m, to);
  check(cudaGetLastError(), "quantize: amaxes");
}

bool plain(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  return spec.format == FormatId::nvfp4 && spec.convention == Convention::te &&
         spec.blocks == BlockShape::row && spec.search == ScaleSearch::amax &&
         spec.rounding == Rounding::nearest && vectors_fit(args.out) &&
         (args.decoded.empty() || vectors_fit(args.decoded, 16));
}

}  // namespace

bool both_fit(const QuantizeBothArgs& args) {
  const TensorView& x = args.columns.x;
  return x.dtype == DType::bf16 && vectors_fit(x, 16) && x.rows % 16 == 0 && plain(args.columns) &&
         (args.rows.out.empty() || plain(args.rows));
}

void quantize_tiles(const QuantizeBothArgs& args, const Exec& exec) {
  const TensorView& x = args.columns.x;
  const Matrix m = {x.as<const bf16>(), x.stride, x.rows, x.cols};
  const bool with_rows = !args.rows.out.empty();
  const QuantizeJob columns = quantize_job(args.columns),
                    rows = with_rows ? quantize_job(args.rows) : QuantizeJob{};
  both_amaxes(m, with_rows ? &rows : nullptr, &columns, exec);
  const auto kernel = with_rows ? (columns.x.rotated ? tile_kernel<true, true> : tile_kernel<true, false>)
                                : (columns.x.rotated ? tile_kernel<false, true> : tile_kernel<false, false>);
  const dim3 grid(blocks(static_cast<size_t>(m.cols), kTile), blocks(static_cast<size_t>(m.rows), kTile));
  kernel<<<grid, kThreads, 0, stream_of(exec)>>>(m, rows, columns);
  check(cudaGetLastError(), "quantize both ways");
}

}  // namespace minite::cuda
