#pragma once
// The dense product of two BF16 matrices on Hopper. A persistent block of three warpgroups: one thread of the
// first keeps the copy engine busy over a ring of stages (64 k of 128 rows of A and kN rows of B each), the
// other two multiply 64 rows by kN columns each and write their part of the tile. In a cluster two blocks
// work on neighbouring tiles of rows: each loads half of the rows of B for both.
//
// Shared memory, from a 1024-byte boundary: the ring, then 16 x 32 FP32 a warp for the way out, scales and
// bias of the tile's columns, barriers.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/pipeline.h"
#include "backends/cuda/sm90/tensor_map.h"
#include "backends/cuda/sm90/wgmma.h"

namespace minite::cuda::sm90 {

struct GemmShape {
  int m, n;
  int tiles_m, tiles_n;  ///< of a whole cluster: 128 kCluster rows
  int depth_blocks;      ///< ceil(K / 64)
  int chunk_blocks;      ///< depth blocks of a chunk
};

inline constexpr int kTileRows = 128, kConsumers = 2, kThreads = 128 * (1 + kConsumers);
inline constexpr int kRasterRows = 16;  ///< tiles of rows that share columns of B while they are in L2

template <int kN>
struct Layout {
  static constexpr int kRowsBytes = kTileRows * kDepth * 2, kColumnsBytes = kN * kDepth * 2;
  static constexpr int kStageBytes = kRowsBytes + kColumnsBytes;
  static constexpr int kPitch =
      40;  ///< FP32 between rows of a warp's way out: 8 rows fall on different banks
  static constexpr int kOutBytes = 4 * kConsumers * 16 * kPitch * 4, kColumnBytes = 2 * kN * 4;
  static constexpr int kStages = (227 * 1024 - 1024 - kOutBytes - kColumnBytes - 256) / kStageBytes;
  static constexpr int kBytes = 1024 + kStages * kStageBytes + kOutBytes + kColumnBytes + 2 * kStages * 8;
};

/// Parts of a block's shared memory.
template <int kN>
struct Shared {
  using L = Layout<kN>;
  uint8_t* ring;
  float *out, *scales, *bias;
  Barrier *full, *empty;

  __device__ explicit Shared(uint8_t* raw) : ring(raw + (1024 - shared_address(raw) % 1024) % 1024) {
    out = reinterpret_cast<float*>(ring + L::kStages * L::kStageBytes);
    scales = out + L::kOutBytes / 4;
    bias = scales + kN;
    full = reinterpret_cast<Barrier*>(bias + kN);
    empty = full + L::kStages;
  }
};

/// First row and column of tile i of a cluster: kRasterRows tiles of rows, then the next column of tiles.
template <int kN, int kCluster>
struct TilePlace {
  int m, n;
  __device__ TilePlace(const GemmShape& s, int i, uint32_t rank) {
    constexpr int kBandRows = kRasterRows / kCluster;
    const int band = kBandRows * s.tiles_n, first = i / band * kBandRows;
    const int rows = min(kBandRows, s.tiles_m - first);
    m = (first + i % band % rows) * kTileRows * kCluster + static_cast<int>(rank) * kTileRows;
    n = i % band / rows * kN;
  }
};

/// The tiles of this cluster.
template <int kCluster>
struct TileRange {
  int begin = static_cast<int>(blockIdx.x) / kCluster, step = static_cast<int>(gridDim.x) / kCluster, end;
  __device__ explicit TileRange(const GemmShape& s) : end(s.tiles_m * s.tiles_n) {}
};

/// The copying thread's side.
template <int kN, Major kA, Major kB, int kCluster>
struct Producer {
  using L = Layout<kN>;

  /// `rows` rows of one operand; of kShare blocks of the cluster this one loads its part and sends it to all.
  template <Major kMajor, int kShare>
  static __device__ void load(uint8_t* to, const CUtensorMap& map, int rows, int row, int k, uint32_t rank,
                              Barrier& full) {
    constexpr auto kAll = static_cast<uint16_t>((1u << kShare) - 1);
    const auto box = [&](int r, int x, int y) {
      if constexpr (kShare == 1) load_box(to + r * kDepth * 2, map, x, y, full);
      if constexpr (kShare != 1) load_box_to(kAll, to + r * kDepth * 2, map, x, y, full);
    };
    const int part = kShare == 1 ? 0 : static_cast<int>(rank);
    if constexpr (kMajor == Major::k) {
      box(part * rows / kShare, k, row + part * rows / kShare);
    } else {
      for (int r = part * kDepth; r < rows; r += kShare * kDepth) box(r, row + r, k);
    }
  }
  static __device__ void run(const CUtensorMap& a, const CUtensorMap& b, const GemmShape& shape,
                             const Shared<kN>& memory) {
    const uint32_t rank = kCluster == 1 ? 0 : cluster_rank();
    Ring<L::kStages> at;
    const TileRange<kCluster> tiles(shape);
    for (int tile = tiles.begin; tile < tiles.end; tile += tiles.step) {
      const TilePlace<kN, kCluster> place(shape, tile, rank);
      for (int k = 0; k < shape.depth_blocks; ++k) {
        Barrier& full = memory.full[at.stage];
        memory.empty[at.stage].wait(at.parity ^ 1);
        full.arrive_expecting(L::kStageBytes);
        uint8_t* to = memory.ring + at.stage * L::kStageBytes;
        load<kA, 1>(to, a, kTileRows, place.m, k * kDepth, rank, full);
        load<kB, kCluster>(to + L::kRowsBytes, b, kN, place.n, k * kDepth, rank, full);
        at.advance();
      }
    }
    // The other block may still send to this one: wait until all stages have come back.
    for (int s = 0; kCluster > 1 && s < L::kStages; ++s) {
      memory.empty[at.stage].wait(at.parity ^ 1);
      at.advance();
    }
  }
};

/// The way out of 16 rows by 32 columns at a time that one warp holds: through shared memory, so that a
/// thread has 8 consecutive columns of a row.
template <int kN>
class Writer {
 public:
  __device__ Writer(const DeviceEpilogue& epilogue, const GemmShape& shape, const Shared<kN>& memory,
                    float* out)
      : epilogue_(epilogue), shape_(shape), memory_(memory), out_(out) {}

  /// Fetches what the tile's rows and columns are multiplied with; before the tile's products.
  __device__ void prepare(int row0, int col0) {
    for (int half = 0; half < 2; ++half) {
      const int r = row0 + 8 * half + lane_ / 4;
      row_scale_[half] = epilogue_.a == nullptr || r >= shape_.m ? 1.0f : epilogue_.a[r * epilogue_.a_step];
    }
    consumers_together();  // the tile before has been written
    for (int i = static_cast<int>(threadIdx.x) - 128; i < kN; i += 128 * kConsumers) {
      const bool inside = col0 + i < shape_.n;
      memory_.scales[i] =
          epilogue_.b == nullptr || !inside ? 1.0f : epilogue_.b[(col0 + i) * epilogue_.b_step];
      memory_.bias[i] = epilogue_.bias == nullptr || !inside ? 0.0f : epilogue_.bias[col0 + i];
    }
    consumers_together();
  }
  __device__ void tile(const float (&d)[kN / 2], int row0, int col0) const {
#pragma unroll
    for (int j = 0; j < kN / 32; ++j) slice(d + 16 * j, row0, col0, 32 * j);
  }

 private:
  static __device__ void consumers_together() {
    asm volatile("bar.sync 1, %0;" ::"n"(128 * kConsumers) : "memory");
  }
  __device__ void slice(const float* d, int row0, int col0, int offset) const {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* to = out_ + lane_ / 4 * kPitch + 8 * j + 2 * (lane_ % 4);
      *reinterpret_cast<float2*>(to) = {d[4 * j], d[4 * j + 1]};
      *reinterpret_cast<float2*>(to + 8 * kPitch) = {d[4 * j + 2], d[4 * j + 3]};
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = 8 * half + lane_ / 4, c = 8 * (lane_ % 4), m = row0 + r, n = col0 + offset + c;
      if (m >= shape_.m || n >= shape_.n) continue;
      float y[8];
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(out_ + r * kPitch + c + i);
        const float4 s = *reinterpret_cast<const float4*>(memory_.scales + offset + c + i);
        y[i] = scaled(epilogue_, v.x, row_scale_[half], s.x);
        y[i + 1] = scaled(epilogue_, v.y, row_scale_[half], s.y);
        y[i + 2] = scaled(epilogue_, v.z, row_scale_[half], s.z);
        y[i + 3] = scaled(epilogue_, v.w, row_scale_[half], s.w);
      }
      if (epilogue_.bias != nullptr) {
        for (int i = 0; i < 8; ++i) y[i] = y[i] + memory_.bias[offset + c + i];
      }
      store_columns(epilogue_, m, n, min(8, shape_.n - n), y);
    }
  }

  static constexpr int kPitch = Layout<kN>::kPitch;
  const DeviceEpilogue& epilogue_;
  const GemmShape& shape_;
  const Shared<kN>& memory_;
  float* out_;  ///< of this warp
  float row_scale_[2] = {};
  int lane_ = threadIdx.x % 32;
};

template <int kN, Major kA, Major kB, bool kChunked, int kCluster>
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

  /// Gives a stage back to every block that loads into it.
  static __device__ void release(Barrier& empty) {
    const uint32_t thread = threadIdx.x % 128;
    if constexpr (kCluster == 1) {
      if (thread == 0) empty.arrive();
    } else {
      if (thread < kCluster) arrive_at(empty, thread);
    }
  }

  static __device__ void run(const GemmShape& shape, const DeviceEpilogue& epilogue,
                             const Shared<kN>& memory) {
    const int group = static_cast<int>(threadIdx.x) / 128 - 1, warp = threadIdx.x / 32 % 4;
    const uint32_t rank = kCluster == 1 ? 0 : cluster_rank();
    Writer<kN> writer(epilogue, shape, memory, memory.out + (4 * group + warp) * 16 * L::kPitch);
    Ring<L::kStages> at;
    const TileRange<kCluster> tiles(shape);
    for (int tile = tiles.begin; tile < tiles.end; tile += tiles.step) {
      const TilePlace<kN, kCluster> place(shape, tile, rank);
      const int row = place.m + 64 * group + 16 * warp;
      writer.prepare(row, place.n);
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
  }

  /// One chain from zero over the next `count` stages. A stage is given back once the products behind it are
  /// under way.
  static __device__ void chain(float (&d)[kRegisters], int count, int group, const Shared<kN>& memory,
                               Ring<L::kStages>& at) {
    int before = 0;
    for (int k = 0; k < count; ++k) {
      memory.full[at.stage].wait(at.parity);
      const uint32_t stage = shared_address(memory.ring + at.stage * L::kStageBytes);
      depth_block(d, stage + group * (L::kRowsBytes / 2), stage + L::kRowsBytes, k == 0);
      wgmma_wait<1>();
      if (k > 0) release(memory.empty[before]);
      before = at.stage;
      at.advance();
    }
    wgmma_wait<0>();
    release(memory.empty[before]);
  }
};

template <int kN, Major kA, Major kB, bool kChunked, int kCluster>
__global__ void __launch_bounds__(kThreads, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, GemmShape shape,
                DeviceEpilogue epilogue) {
  using L = Layout<kN>;
  extern __shared__ uint8_t raw[];
  const Shared<kN> memory(raw);
  if (threadIdx.x == 0) {
    prefetch_map(a);
    prefetch_map(b);
    for (int s = 0; s < L::kStages; ++s) {
      memory.full[s].init(1);
      memory.empty[s].init(kConsumers * kCluster);
    }
    fence_barrier_init();
  }
  kCluster == 1 ? __syncthreads() : cluster_sync();
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x == 0) Producer<kN, kA, kB, kCluster>::run(a, b, shape, memory);
  } else {
    take_registers<240>();
    Consumer<kN, kA, kB, kChunked, kCluster>::run(shape, epilogue, memory);
  }
  // Arrivals at the barriers of a block that is gone would go nowhere.
  if constexpr (kCluster > 1) cluster_sync();
}

}  // namespace minite::cuda::sm90
