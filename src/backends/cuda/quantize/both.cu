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
__device__ int word_at(int r, int w) { return r * kWords + (w ^ (r / 16 % 8 * 4)); }

__device__ void load_tile(const Matrix& m, int64_t top, int64_t left, uint32_t* tile) {
#pragma unroll
  for (int i = 0; i < kTile * kWords / 4 / kThreads; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * kThreads, r = item / 16, vector = item % 16;
    if (top + r >= m.rows || left + 8 * vector >= m.cols) continue;
    copy_async(tile + word_at(r, 4 * vector), m.x + (top + r) * m.stride + left + 8 * vector);
  }
  wait_for_copies();
}

__device__ void quantize_tile_rows(const Matrix& m, const QuantizeJob& job, int64_t top, int64_t left,
                                   const uint32_t* tile) {
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < kTile * kGroups; item += kThreads) {
    const int row = item / kGroups, w = item % kGroups * 8;
    const int64_t r = top + row, b = left / 16 + item % kGroups;
    if (r >= m.rows || b * 16 >= m.cols) continue;
    const uint4 first = *reinterpret_cast<const uint4*>(tile + word_at(row, w));
    const uint4 second = *reinterpret_cast<const uint4*>(tile + word_at(row, w + 4));
    const Words8 x = {{first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w}};
    const Outer outer = outer_of(job, r);
    store_outer(job, {r, b, true}, outer);
    finish_block(job, r, b, x, outer.s_enc * kSixth, outer.s_dec);
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

template <bool kRotated>
__device__ void quantize_tile_columns(const QuantizeJob& job, int64_t top, int64_t left,
                                      const uint32_t* tile) {
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < kWords * kGroups; item += kThreads) {
    const int group = item % kGroups, word = item / kGroups;  // eight lanes write 64 bytes of a row of codes
    const int64_t b = top / 16 + group, c = left + 2 * word;
    if (b * 16 >= job.x.cols || c >= job.x.rows) continue;
    uint32_t w[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) w[k] = add_zero(tile[word_at(16 * group + k, word)]);
    const uint32_t most = pair_max(w, 16);
    uint2 signs[2];
    signs_across(w, signs[0].x, signs[1].x);
    signs_across(w + 8, signs[0].y, signs[1].y);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Outer outer = outer_of(job, c + h);
      store_outer(job, {c + h, b, true}, outer);
      if (kRotated) {
        finish_block(job, c + h, b, rotated(w, h == 1), outer.s_enc * kSixth, outer.s_dec);
        continue;
      }
      const float amax = __uint_as_float(h == 0 ? most << 16 : most & 0xFFFF0000u);
      const FastScale scale = fast_scale(amax * (outer.s_enc * kSixth), outer.s_dec);
      store_block(job, c + h, b, scale, encode_across(w, h == 1, amax, scale.encode, signs[h]));
    }
  }
}

template <bool kRows, bool kRotated>
__global__ void __launch_bounds__(kThreads, 4) tile_kernel(Matrix m, QuantizeJob rows, QuantizeJob columns) {
  __shared__ uint4 tile[kTile * kWords / 4];
  auto* words = reinterpret_cast<uint32_t*>(tile);
  const int64_t top = int64_t{blockIdx.y} * kTile, left = int64_t{blockIdx.x} * kTile;
  load_tile(m, top, left, words);
  __syncthreads();
  if (kRows) quantize_tile_rows(m, rows, top, left, words);
  quantize_tile_columns<kRotated>(columns, top, left, words);
}

// --- amaxes ----------------------------------------------------------------------------------------

constexpr int kAmaxRows = 256;  ///< of a block of threads; 16 threads by vectors of 8 cover 128 columns

/// Where the amaxes of a pass go, or nullptr; one for all (step 0) or one a row or column.
struct Amaxes {
  unsigned *rows, *columns;
  int row_step, column_step;
};

__global__ void __launch_bounds__(kThreads) amax_kernel(Matrix m, Amaxes to) {
  __shared__ uint32_t part[kThreads / 16][kTile / 2];
  const int lane = static_cast<int>(threadIdx.x) % 16, line = static_cast<int>(threadIdx.x) / 16;
  const int64_t top = int64_t{blockIdx.y} * kAmaxRows, c = int64_t{blockIdx.x} * kTile + 8 * lane;
  uint32_t most[4] = {};
#pragma unroll 8
  for (int i = 0; i < kAmaxRows / 16; ++i) {
    const int64_t r = top + line + 16 * i;
    uint4 v = {};
    if (r < m.rows && c < m.cols) v = *reinterpret_cast<const uint4*>(m.x + r * m.stride + c);
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) most[k] = pair_max(most[k], w[k]);
    if (to.rows == nullptr) continue;
    uint32_t row = widest(pair_max(w, 4));
#pragma unroll
    for (int step = 8; step > 0; step /= 2) row = max(row, __shfl_xor_sync(0xFFFFFFFFu, row, step));
    if (lane == 0 && r < m.rows) atomicMax(to.rows + r * to.row_step, row);
  }
  if (to.columns == nullptr) return;
#pragma unroll
  for (int k = 0; k < 4; ++k) part[line][4 * lane + k] = most[k];
  __syncthreads();
  const int word = static_cast<int>(threadIdx.x);
  if (word >= kTile / 2) return;
  uint32_t all = 0;
  for (int i = 0; i < kThreads / 16; ++i) all = pair_max(all, part[i][word]);
  const int64_t column = int64_t{blockIdx.x} * kTile + 2 * word;
  if (column >= m.cols) return;
  atomicMax(to.columns + column * to.column_step, all << 16);
  atomicMax(to.columns + (column + 1) * to.column_step, all & 0xFFFF0000u);
}

void clear(const QuantizeJob& job, const Exec& exec) {
  const size_t count = job.domain == Domain::row ? static_cast<size_t>(job.out.rows) : 1;
  check(cudaMemsetAsync(job.out.amax, 0, count * sizeof(float), stream_of(exec)), "cudaMemsetAsync");
}

/// Outer amaxes of both, from one look at x. A rotated operand has amaxes of its own values.
void both_amaxes(const Matrix& m, const QuantizeJob* rows, const QuantizeJob* columns, const Exec& exec) {
  Amaxes to = {};
  if (rows != nullptr && rows->domain != Domain::none) {
    clear(*rows, exec);
    to.rows = reinterpret_cast<unsigned*>(rows->out.amax);
    to.row_step = rows->domain == Domain::row ? 1 : 0;
  }
  if (columns != nullptr && columns->domain != Domain::none) {
    if (columns->x.rotated) {
      nvfp4_amax(*columns, exec);
    } else {
      clear(*columns, exec);
      to.columns = reinterpret_cast<unsigned*>(columns->out.amax);
      to.column_step = columns->domain == Domain::row ? 1 : 0;
    }
  }
  if (to.rows == nullptr && to.columns == nullptr) return;
  const dim3 grid(blocks(static_cast<size_t>(m.cols), kTile), blocks(static_cast<size_t>(m.rows), kAmaxRows));
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

bool both_fit(const BothArgs& args) {
  const TensorView& x = args.columns.x;
  return x.dtype == DType::bf16 && vectors_fit(x, 16) && x.rows % 16 == 0 && plain(args.columns) &&
         (args.rows.out.empty() || plain(args.rows));
}

void quantize_both(const BothArgs& args, const Exec& exec) {
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
