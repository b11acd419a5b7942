#pragma once
// The dense product of two BF16 matrices on Hopper. A persistent block of three warpgroups: one thread of the
// first keeps the copy engine busy over a ring of stages (64 k of 128 rows of A and kN rows of B each), the
// other two multiply 64 rows by kN columns each and write their part of the tile.
//
// Shared memory, from a 1024-byte boundary: the ring, then 16 x 32 FP32 a warp for the way out, then
// barriers.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/pipeline.h"
#include "backends/cuda/sm90/tensor_map.h"
#include "backends/cuda/sm90/wgmma.h"

namespace minite::cuda::sm90 {

struct GemmShape {
  int m, n;
  int tiles_m, tiles_n;
  int depth_blocks;  ///< ceil(K / 64)
  int chunk_blocks;  ///< depth blocks of a chunk
};

inline constexpr int kTileRows = 128, kConsumers = 2, kThreads = 128 * (1 + kConsumers);
inline constexpr int kRasterRows = 16;  ///< tiles of rows that share columns of B while they are in L2

template <int kN>
struct Layout {
  static constexpr int kRowsBytes = kTileRows * kDepth * 2, kColumnsBytes = kN * kDepth * 2;
  static constexpr int kStageBytes = kRowsBytes + kColumnsBytes;
  static constexpr int kPitch =
      40;  ///< FP32 between rows of a warp's way out: 8 rows fall on different banks
  static constexpr int kOutBytes = 4 * kConsumers * 16 * kPitch * 4;
  static constexpr int kStages = (227 * 1024 - 1024 - kOutBytes - 256) / kStageBytes;
  static constexpr int kBytes = 1024 + kStages * kStageBytes + kOutBytes + 2 * kStages * 8;
};

/// Tile i: kRasterRows tiles of rows, then the next column of tiles.
struct TilePlace {
  int m, n;
  __device__ TilePlace(const GemmShape& s, int i) {
    const int band = kRasterRows * s.tiles_n, first = i / band * kRasterRows;
    const int rows = min(kRasterRows, s.tiles_m - first);
    m = (first + i % band % rows) * kTileRows;
    n = i % band / rows;
  }
};

/// The copying thread's side.
template <int kN, Major kA, Major kB>
struct Producer {
  using L = Layout<kN>;

  template <Major kMajor>
  static __device__ void load(uint8_t* to, const CUtensorMap& map, int rows, int row, int k, Barrier& full) {
    if constexpr (kMajor == Major::k) {
      load_box(to, map, k, row, full);
    } else {
      for (int r = 0; r < rows; r += kDepth) load_box(to + r * kDepth * 2, map, row + r, k, full);
    }
  }
  static __device__ void run(const CUtensorMap& a, const CUtensorMap& b, const GemmShape& shape,
                             uint8_t* ring, Barrier* full, Barrier* empty) {
    Ring<L::kStages> at;
    for (int tile = blockIdx.x; tile < shape.tiles_m * shape.tiles_n; tile += gridDim.x) {
      const TilePlace place(shape, tile);
      for (int k = 0; k < shape.depth_blocks; ++k) {
        empty[at.stage].wait(at.parity ^ 1);
        full[at.stage].arrive_expecting(L::kStageBytes);
        uint8_t* to = ring + at.stage * L::kStageBytes;
        load<kA>(to, a, kTileRows, place.m, k * kDepth, full[at.stage]);
        load<kB>(to + L::kRowsBytes, b, kN, place.n * kN, k * kDepth, full[at.stage]);
        at.advance();
      }
    }
  }
};

/// The way out of 16 rows by 32 columns that one warp holds: through shared memory, so that a thread has 8
/// consecutive columns of a row.
template <int kN>
class Writer {
 public:
  /// `out`: of this warp; m, n: size of y.
  __device__ Writer(const DeviceEpilogue& epilogue, float* out, int m, int n)
      : epilogue(epilogue), out(out), m(m), n(n) {}
  __device__ void tile(const float (&d)[kN / 2], int row0, int col0) const {
#pragma unroll
    for (int j = 0; j < kN / 32; ++j) slice(d + 16 * j, row0, col0 + 32 * j);
  }

 private:
  __device__ void slice(const float* d, int row0, int col0) const {
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* to = out + lane / 4 * kPitch + 8 * j + 2 * (lane % 4);
      *reinterpret_cast<float2*>(to) = {d[4 * j], d[4 * j + 1]};
      *reinterpret_cast<float2*>(to + 8 * kPitch) = {d[4 * j + 2], d[4 * j + 3]};
    }
    __syncwarp();
    for (int half = 0; half < 2; ++half) {
      const int r = 8 * half + lane / 4, c = 8 * (lane % 4);
      if (row0 + r < m && col0 + c < n)
        store_columns(epilogue, row0 + r, col0 + c, min(8, n - col0 - c), out + r * kPitch + c);
    }
  }

  static constexpr int kPitch = Layout<kN>::kPitch;
  const DeviceEpilogue& epilogue;
  float* out;
  int m, n;
};

template <int kN, Major kA, Major kB, bool kChunked>
struct Consumer {
  using L = Layout<kN>;
  static constexpr int kRegisters = kN / 2;

  static __device__ void depth_block(float (&d)[kRegisters], uint32_t a, uint32_t b, bool from_zero) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      const Accumulator start = from_zero && step == 0 ? Accumulator::zero : Accumulator::keep;
      wgmma<kA, kB>(d, descriptor<kA>(a + step * kStepBytes<kA>), descriptor<kB>(b + step * kStepBytes<kB>),
                    start);
    }
    wgmma_commit();
  }

  static __device__ void run(const GemmShape& shape, const DeviceEpilogue& epilogue, uint8_t* ring,
                             float* out, Barrier* full, Barrier* empty) {
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4;
    const Writer<kN> writer(epilogue, out + (4 * group + warp) * 16 * L::kPitch, shape.m, shape.n);
    Ring<L::kStages> at;
    for (int tile = blockIdx.x; tile < shape.tiles_m * shape.tiles_n; tile += gridDim.x) {
      const TilePlace place(shape, tile);
      const int row = place.m + 64 * group + 16 * warp, col = place.n * kN;
      float d[kRegisters];
      if constexpr (kChunked) {
        float total[kRegisters];
        for (int k = 0; k < shape.depth_blocks; k += shape.chunk_blocks) {
          chain(d, min(shape.chunk_blocks, shape.depth_blocks - k), group, ring, full, empty, at);
#pragma unroll
          for (int i = 0; i < kRegisters; ++i) total[i] = k == 0 ? d[i] : total[i] + d[i];
        }
        writer.tile(total, row, col);
      } else {
        chain(d, shape.depth_blocks, group, ring, full, empty, at);
        writer.tile(d, row, col);
      }
    }
  }

  /// One chain from zero over the next `count` stages. A stage is given back once the products behind it are
  /// under way.
  static __device__ void chain(float (&d)[kRegisters], int count, int group, uint8_t* ring, Barrier* full,
                               Barrier* empty, Ring<L::kStages>& at) {
    const bool speaks = threadIdx.x % 128 == 0;
    int before = 0;
    for (int k = 0; k < count; ++k) {
      full[at.stage].wait(at.parity);
      const uint32_t stage = shared_address(ring + at.stage * L::kStageBytes);
      depth_block(d, stage + group * (L::kRowsBytes / 2), stage + L::kRowsBytes, k == 0);
      wgmma_wait<1>();
      if (k > 0 && speaks) empty[before].arrive();
      before = at.stage;
      at.advance();
    }
    wgmma_wait<0>();
    if (speaks) empty[before].arrive();
  }
};

template <int kN, Major kA, Major kB, bool kChunked>
__global__ void __launch_bounds__(kThreads, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, GemmShape shape,
                DeviceEpilogue epilogue) {
  using L = Layout<kN>;
  extern __shared__ uint8_t raw[];
  uint8_t* ring = raw + (1024 - shared_address(raw) % 1024) % 1024;
  float* out = reinterpret_cast<float*>(ring + L::kStages * L::kStageBytes);
  auto* full = reinterpret_cast<Barrier*>(reinterpret_cast<uint8_t*>(out) + L::kOutBytes);
  Barrier* empty = full + L::kStages;
  if (threadIdx.x == 0) {
    prefetch_map(a);
    prefetch_map(b);
    for (int s = 0; s < L::kStages; ++s) {
      full[s].init(1);
      empty[s].init(kConsumers);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x == 0) Producer<kN, kA, kB>::run(a, b, shape, ring, full, empty);
  } else {
    take_registers<240>();
    Consumer<kN, kA, kB, kChunked>::run(shape, epilogue, ring, out, full, empty);
  }
}

}  // namespace minite::cuda::sm90
