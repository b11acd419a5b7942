#pragma once
// NVFP4 codes of a tile of 128 x 128 BF16 values along its rows, its columns, or both. For .cu files only.
//
// A block of threads holds the tile in shared memory, quantizes blocks of its rows from there, then blocks of
// its columns, two columns a thread. The loops are not unrolled: the code of one block is long, and several
// blocks of threads share a multiprocessor to hide each other's waiting.
#include <cstddef>

#include "backends/cuda/common/copy_async.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/common/shared.h"
#include "backends/cuda/quantize/amax.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {

/// How one of the two directions is quantized; `tile`: to nearest, with a scale a tile of 16 x 16.
enum class Way : uint8_t { none, nearest, noise, tile };

struct TileJob {
  Matrix m;
  QuantizeJob rows, columns;
  bool upwards;  ///< the lowest tiles first: a pass over m before has left them in the cache
};

inline constexpr int kTile = 128, kTileThreads = 256;
inline constexpr int kTileWords = kTile / 2;    ///< of a row of the tile
inline constexpr int kTileGroups = kTile / 16;  ///< blocks of a row or column of the tile

/// Place of word w of row r of the tile. The eight blocks of a column lie 16 rows apart, and the eight blocks
/// of a row 8 words: the exclusive or with the row's group, and with the half of the row, gives each of them
/// banks of its own. Vectors of four words stay together.
__device__ inline uint32_t word_at(uint32_t r, uint32_t w) {
  return r * kTileWords + (w ^ ((r / 16 % 8 ^ w / 32) * 4));
}
/// Lines of a tile that lie inside, of `count` lines in all.
__device__ inline uint32_t inside(int64_t count, int64_t begin) {
  return static_cast<uint32_t>(count - begin < kTile ? count - begin : kTile);
}

/// Starts the copies of a tile: 16 threads a row, 16 rows a turn.
__device__ inline void fetch_tile(const Matrix& m, int64_t top, int64_t left, uint32_t tile) {
  const uint32_t vector = threadIdx.x % 16, first = threadIdx.x / 16, rows = inside(m.rows, top);
  if (left + 8 * vector >= m.cols) return;
  const bf16* from = m.x + (top + first) * m.stride + left + 8 * vector;
  const uint32_t to = tile + 4 * first * kTileWords, swizzled = 16 * (vector ^ vector / 8);
  if (rows == kTile) {
#pragma unroll
    for (uint32_t i = 0; i < kTile / 16; ++i, from += 16 * m.stride)
      copy_async(to + 64 * i * kTileWords + (swizzled ^ 16 * i), from);
    return;
  }
  for (uint32_t i = 0; first + 16 * i < rows; ++i, from += 16 * m.stride)
    copy_async(to + 64 * i * kTileWords + (swizzled ^ 16 * i), from);
}

/// fl(S_enc * fl(1/6)) and S_dec of a row or column of the tile.
struct LineScale {
  float sixth, s_dec;
};
/// Of line `r` of an operand; the blocks of threads at its start also store it.
__device__ inline LineScale line_scale(const QuantizeJob& job, int64_t r, bool at_start) {
  if (r >= job.out.rows) return {};
  const Outer outer = outer_of(job, r);
  if (at_start) store_outer(job, {r, 0, true}, outer);
  return {outer.s_enc * kSixth, outer.s_dec};
}

/// Amaxes of the 64 tiles of 16 x 16, four threads each.
__device__ inline void small_amaxes(const uint32_t* tile, uint32_t* amaxes) {
  const uint32_t which = threadIdx.x / 4, row = which / 8 * 16 + threadIdx.x % 4 * 4, word = which % 8 * 8;
  uint32_t most = 0;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
#pragma unroll
    for (uint32_t h = 0; h < 8; h += 4) {
      const uint4 v = *reinterpret_cast<const uint4*>(tile + word_at(row + k, word + h));
      most = larger(larger(most, v.x), larger(larger(v.y, v.z), v.w));
    }
  }
  uint32_t value = widest(most & 0x7FFF7FFFu);
  value = max(value, __shfl_xor_sync(0xFFFFFFFFu, value, 1));
  value = max(value, __shfl_xor_sync(0xFFFFFFFFu, value, 2));
  if (threadIdx.x % 4 == 0) amaxes[which] = value;
}

/// Where an operand's part of a tile begins: a line of it, and a block of that line.
struct Corner {
  int64_t line, block;
};
/// Results of blocks at one place of the lines of a tile, line after line.
struct Results {
  uint8_t *scale, *codes;
  __device__ Results(const QuantizeJob& job, const Corner& corner, uint32_t line, uint32_t block)
      : scale(job.out.scales + (corner.line + line) * job.out.scale_stride + corner.block + block),
        codes(job.out.codes + (corner.line + line) * job.out.code_stride + 8 * (corner.block + block)) {}
  __device__ void advance(const QuantizeJob& job, int lines) {
    scale += lines * job.out.scale_stride;
    codes += lines * job.out.code_stride;
  }
};
/// Quantizes block `block` of line `line`, both from the corner. x(i) is element i with zeros that are +0.
template <Way kWay, bool kDecoded, class Value>
__device__ inline void finish(const QuantizeJob& job, const Corner& corner, uint32_t line, uint32_t block,
                              const Results& to, const Value& x, uint2 signs, float amax, float2 outer) {
  const FastScale scale = fast_scale(amax * outer.x, outer.y);
  const int64_t r = corner.line + line, b = corner.block + block;
  const uint2 codes = kWay == Way::noise ? encode_noisy(x, signs, scale.divisor,
                                                        block_noise(job, r * job.out.scale_stride + b))
                                         : encode_nearest(x, signs, amax, scale.divisor);
  *to.scale = static_cast<uint8_t>(scale.byte);
  *reinterpret_cast<uint2*>(to.codes) = codes;
  if (kDecoded && job.decoded != nullptr)
    store_decoded(job.decoded + r * job.decoded_stride + 16 * b, scale.value, codes);
}

/// The tile, and what belongs to its lines and to its tiles of 16 x 16.
struct TileMemory {
  uint32_t words[kTile * kTileWords];
  LineScale row_scales[kTile], column_scales[kTile];
  uint32_t amaxes[kTileGroups * kTileGroups];
};
/// The same by 32-bit addresses.
struct Shared {
  uint32_t tile, row_scales, column_scales, amaxes;
  __device__ explicit Shared(const TileMemory& memory) {
    // What the assembler cannot look through, it keeps: it would derive the address at each use.
    asm volatile("mov.u32 %0, %1;" : "=r"(tile) : "r"(shared_address(&memory)));
    row_scales = tile + offsetof(TileMemory, row_scales);
    column_scales = tile + offsetof(TileMemory, column_scales);
    amaxes = tile + offsetof(TileMemory, amaxes);
  }
};

template <Way kWay, bool kDecoded>
__device__ inline void quantize_tile_rows(const TileJob& job, const Corner& corner, const Shared& shared) {
  constexpr uint32_t kStep = kTileThreads / kTileGroups;  // rows
  const uint32_t b = threadIdx.x % kTileGroups, first = threadIdx.x / kTileGroups,
                 rows = inside(job.m.rows, corner.line);
  if (16 * (corner.block + b) >= job.m.cols) return;
  // word_at() in bytes: the vector of the row's first group, and the group of 16 rows.
  const uint32_t vector = (2 * b ^ b / 4) * 16;
  uint32_t group = first / 16 * 16, from = shared.tile + first * 4 * kTileWords;
  Results to(job.rows, corner, first, b);
#pragma unroll 1
  for (uint32_t row = first; row < rows; row += kStep) {
    const uint32_t at = from + (vector ^ group);
    const uint4 x = load_shared_vector(at), y = load_shared_vector(at ^ 16);
    const Words8 w = {{x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w}};
    const uint32_t bits =
        kWay == Way::tile ? load_shared(shared.amaxes + (row / 16 * 8 + b) * 4) : widest(pair_max(w.w, 8));
    const Words8 v = plus_zeros(w);
    finish<kWay, kDecoded>(
        job.rows, corner, row, b, to, [&](int i) { return element(v, i); }, signs_of(v),
        __uint_as_float(bits), load_shared_pair(shared.row_scales + 8 * row));
    to.advance(job.rows, kStep);
    from += kStep * 4 * kTileWords;
    group = (group + kStep) % kTile;
  }
}

/// One column's block of a rotated operand.
__device__ inline Words8 rotated(const uint32_t* w, bool upper) {
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
template <Way kWay, bool kRotated, bool kDecoded>
__device__ inline void quantize_tile_columns(const TileJob& tiles, const Corner& corner,
                                             const Shared& shared) {
  const QuantizeJob& job = tiles.columns;
  constexpr uint32_t kStep = kTileThreads / kTileGroups;  // words: half a row of the tile
  const uint32_t group = threadIdx.x % kTileGroups, words = inside(tiles.m.cols, corner.line) / 2;
  if (16 * (corner.block + group) >= tiles.m.rows) return;
  uint32_t word = threadIdx.x / kTileGroups, from = shared.tile + 4 * word_at(16 * group, word);
  Results to(job, corner, 2 * word, group);
#pragma unroll 1
  for (; word < words; word += kStep) {
    uint32_t w[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      w[k] = load_shared(from + k * 4 * kTileWords);
      if (!kRotated) w[k] = add_zero(w[k]);
    }
    uint2 signs[2];
    uint32_t most = 0;
    if (!kRotated) {
      if (kWay != Way::tile) most = pair_max(w, 16);
      signs_across(w, signs[0].x, signs[1].x);
      signs_across(w + 8, signs[0].y, signs[1].y);
    }
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const uint32_t column = 2 * word + h;
      const float2 outer = load_shared_pair(shared.column_scales + 8 * column);
      if (kRotated) {
        const Words8 z = rotated(w, h == 1);
        const float amax = __uint_as_float(widest(pair_max(z.w, 8)));
        const Words8 v = plus_zeros(z);
        finish<kWay, kDecoded>(
            job, corner, column, group, to, [&](int i) { return element(v, i); }, signs_of(v), amax, outer);
      } else {
        const uint32_t bits = kWay == Way::tile ? load_shared(shared.amaxes + (group * 8 + word / 8) * 4)
                              : h == 0          ? most << 16
                                                : most & 0xFFFF0000u;
        finish<kWay, kDecoded>(
            job, corner, column, group, to, [&](int i) { return h == 1 ? high(w[i]) : low(w[i]); }, signs[h],
            __uint_as_float(bits), outer);
      }
      to.advance(job, h == 0 ? 1 : 2 * kStep - 1);
    }
    from = (from ^ 16) + 4 * kStep;
  }
}

template <Way kRows, Way kColumns, bool kRotated, bool kDecoded>
__global__ void __launch_bounds__(kTileThreads, kRows == Way::noise || kColumns == Way::noise ? 3 : 4)
    tile_kernel(const __grid_constant__ TileJob job) {
  constexpr bool kSmall = kRows == Way::tile || kColumns == Way::tile;
  __shared__ __align__(256) TileMemory memory;
  const Shared shared(memory);
  const int64_t down = job.upwards ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
  const int64_t top = down * kTile, left = int64_t{blockIdx.x} * kTile;
  fetch_tile(job.m, top, left, shared.tile);
  const int line = static_cast<int>(threadIdx.x % kTile);
  if (threadIdx.x >= kTile) {
    if (kColumns != Way::none) memory.column_scales[line] = line_scale(job.columns, left + line, top == 0);
  } else if (kRows != Way::none) {
    memory.row_scales[line] = line_scale(job.rows, top + line, left == 0);
  }
  wait_for_copies();
  __syncthreads();
  if (kSmall) {
    small_amaxes(memory.words, memory.amaxes);
    __syncthreads();
  }
  if constexpr (kRows != Way::none) quantize_tile_rows<kRows, kDecoded>(job, {top, left / 16}, shared);
  if constexpr (kColumns != Way::none)
    quantize_tile_columns<kColumns, kRotated, kDecoded>(job, {left, top / 16}, shared);
}

template <Way kRows, Way kColumns, bool kRotated, bool kDecoded>
void launch_tiles(const TileJob& job, const Exec& exec) {
  const dim3 grid(blocks(static_cast<size_t>(job.m.cols), kTile),
                  blocks(static_cast<size_t>(job.m.rows), kTile));
  tile_kernel<kRows, kColumns, kRotated, kDecoded><<<grid, kTileThreads, 0, stream_of(exec)>>>(job);
  check(cudaGetLastError(), "quantize tiles");
}
using TileLaunch = void (*)(const TileJob&, const Exec&);
/// The kernels of one way, for the directions that are wanted. `decoded`: whether decoded values may be.
[[nodiscard]] TileLaunch nearest_tiles(bool rows, bool rotated, bool decoded);
[[nodiscard]] TileLaunch noisy_tiles(bool rows, bool rotated);
[[nodiscard]] TileLaunch small_tiles(bool rows, bool columns);

}  // namespace minite::cuda
