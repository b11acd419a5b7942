#pragma once
// The dense product of two BF16 matrices on Hopper. A persistent block of three warpgroups: one thread of the
// first keeps the copy engine busy over a ring of stages (64 k of 128 rows of A and kN rows of B each), the
// other two multiply 64 rows by kN columns each and write their part of the tile.
//
// Shared memory, from a 1024-byte boundary: the ring, the way out, scales of the tile's columns, barriers.
//
// (Sharing B between two blocks of a cluster by multicast was measured and is slower here: 1.9 against 1.5 ms
// at 8192^3.)
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/gemm_writer.h"
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

inline constexpr int kTileRows = 128, kThreads = 128 * (1 + kConsumers);
inline constexpr int kRasterRows = 16;  ///< tiles of rows that share columns of B while they are in L2

template <int kN, class W = WayOut<kN>>
struct Layout {
  using Out = W;
  static constexpr int kRowsBytes = kTileRows * kDepth * 2, kColumnsBytes = kN * kDepth * 2;
  static constexpr int kStageBytes = kRowsBytes + kColumnsBytes;
  static constexpr int kOutBytes = kConsumers * W::kBytes, kScaleBytes = kN * 4;
  static constexpr int kStages = (227 * 1024 - 1024 - kOutBytes - kScaleBytes - 128) / kStageBytes;
  static constexpr int kBytes = 1024 + kStages * kStageBytes + kOutBytes + kScaleBytes + 2 * kStages * 8;
};

/// Parts of a block's shared memory.
template <int kN, class L = Layout<kN>>
struct Shared {
  uint8_t *ring, *out;
  float* scales;
  Barrier *full, *empty;

  __device__ explicit Shared(uint8_t* raw) : ring(raw + (1024 - shared_address(raw) % 1024) % 1024) {
    out = ring + L::kStages * L::kStageBytes;
    scales = reinterpret_cast<float*>(out + L::kOutBytes);
    full = reinterpret_cast<Barrier*>(scales + kN);
    empty = full + L::kStages;
  }
};

/// First row and column of tile i: kRasterRows tiles of rows, then the next column of tiles.
template <int kN>
struct TilePlace {
  int m, n;
  __device__ TilePlace(const GemmShape& s, int i) {
    const int band = kRasterRows * s.tiles_n, first = i / band * kRasterRows;
    const int rows = min(kRasterRows, s.tiles_m - first);
    m = (first + i % band % rows) * kTileRows;
    n = i % band / rows * kN;
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
                             const Shared<kN>& memory) {
    prefetch_map(a);
    prefetch_map(b);
    Ring<L::kStages> at;
    for (int tile = blockIdx.x; tile < shape.tiles_m * shape.tiles_n; tile += gridDim.x) {
      const TilePlace<kN> place(shape, tile);
      for (int k = 0; k < shape.depth_blocks; ++k) {
        Barrier& full = memory.full[at.stage];
        memory.empty[at.stage].wait(at.parity ^ 1);
        full.arrive_expecting(L::kStageBytes);
        uint8_t* to = memory.ring + at.stage * L::kStageBytes;
        load<kA>(to, a, kTileRows, place.m, k * kDepth, full);
        load<kB>(to + L::kRowsBytes, b, kN, place.n, k * kDepth, full);
        at.advance();
      }
    }
  }
};

struct Nothing {
  __device__ void operator()(int, int) const {}
};

template <int kN, Major kA, Major kB, bool kChunked, Store kStore, class L = Layout<kN>>
struct Consumer {
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

  static __device__ void run(const CUtensorMap& y, const GemmShape& shape, const DeviceEpilogue& epilogue,
                             const Shared<kN, L>& memory) {
    const int group = static_cast<int>(threadIdx.x) / 128 - 1;
    Writer<kN, kStore, typename L::Out> writer(y, epilogue, shape.m, shape.n,
                                               memory.out + group * L::Out::kBytes, memory.scales);
    Ring<L::kStages> at;
    for (int tile = blockIdx.x; tile < shape.tiles_m * shape.tiles_n; tile += gridDim.x) {
      const TilePlace<kN> place(shape, tile);
      const int row = place.m + 64 * group;
      writer.fetch_scales(row, place.n);
      float d[kRegisters];
      if constexpr (kChunked) {
        float total[kRegisters];
        for (int k = 0; k < shape.depth_blocks; k += shape.chunk_blocks) {
          chain(d, min(shape.chunk_blocks, shape.depth_blocks - k), group, memory, at);
#pragma unroll
          for (int i = 0; i < kRegisters; ++i) total[i] = k == 0 ? d[i] : total[i] + d[i];
        }
        writer.tile(total, row, place.n);
      } else {
        chain(d, shape.depth_blocks, group, memory, at);
        writer.tile(d, row, place.n);
      }
    }
    writer.finish();
  }

  /// One chain from zero over the next `count` stages. A stage is given back once the products behind it are
  /// under way. `arrived(k, stage)` is called before stage k of the chain is multiplied.
  template <class Arrived = Nothing>
  static __device__ void chain(float (&d)[kRegisters], int count, int group, const Shared<kN, L>& memory,
                               Ring<L::kStages>& at, const Arrived& arrived = {}) {
    const bool speaks = threadIdx.x % 128 == 0;
    int before = 0;
    for (int k = 0; k < count; ++k) {
      memory.full[at.stage].wait(at.parity);
      arrived(k, at.stage);
      const uint32_t stage = shared_address(memory.ring + at.stage * L::kStageBytes);
      depth_block(d, stage + group * (L::kRowsBytes / 2), stage + L::kRowsBytes, k == 0);
      wgmma_wait<1>();
      if (k > 0 && speaks) memory.empty[before].arrive();
      before = at.stage;
      at.advance();
    }
    wgmma_wait<0>();
    if (speaks) memory.empty[before].arrive();
  }
};

/// Sets the barriers up: a stage is full after `arrivals` and the copied bytes.
template <int kN, class L>
__device__ void start_barriers(const Shared<kN, L>& memory, uint32_t arrivals) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < L::kStages; ++s) {
      memory.full[s].init(arrivals);
      memory.empty[s].init(kConsumers);
    }
    fence_barrier_init();
  }
  __syncthreads();
}

template <int kN, Major kA, Major kB, bool kChunked, Store kStore>
__global__ void __launch_bounds__(kThreads, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                const __grid_constant__ CUtensorMap y, GemmShape shape, DeviceEpilogue epilogue) {
  extern __shared__ uint8_t raw[];
  const Shared<kN> memory(raw);
  start_barriers(memory, 1);
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x == 0) Producer<kN, kA, kB>::run(a, b, shape, memory);
  } else {
    take_registers<240>();
    Consumer<kN, kA, kB, kChunked, kStore>::run(y, shape, epilogue, memory);
  }
}

}  // namespace minite::cuda::sm90
