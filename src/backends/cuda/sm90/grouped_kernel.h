#pragma once
// Products by group: the dense kernel (gemm_kernel.h) over the tiles of all groups, with the same ring, the
// same chains and so the same bits. A warpgroup whose 64 rows lie past a group's end multiplies nothing.
#include "backends/cuda/sm90/grouped_tiles.h"

namespace minite::cuda::sm90 {

/// Three boxes and four stages for tiles of 192 columns: a weight gradient of few rows is bound by its
/// stores.
template <int kN>
using GroupedFit = Layout<kN, WayOut<kN, kN == 256 ? 2 : 3>>;
template <int kN>
using GroupedShared = Shared<kN, GroupedFit<kN>>;

template <int kN>
struct GroupedLayout {
  static constexpr int kPlanAt = (GroupedFit<kN>::kBytes + 15) / 16 * 16;
  static constexpr int kBytes = kPlanAt + static_cast<int>(sizeof(TilePlan));
  static_assert(kBytes <= 227 * 1024);
  static constexpr int kPiece = 64 * kDepth * 2;  ///< 64 lines of an operand, 64 deep
};

/// The copying thread's side.
template <int kN, class Tiles, Major kB>
struct GroupedProducer {
  using L = GroupedFit<kN>;
  static constexpr int kPiece = GroupedLayout<kN>::kPiece;

  /// The second 64 rows are fetched where the group has them.
  static __device__ void load(uint8_t* to, const CUtensorMap& a, const CUtensorMap& b, const GroupTile& t,
                              int k, bool both, Barrier& full) {
    uint8_t* columns = to + L::kRowsBytes;
    if constexpr (Tiles::kCutDepth) {
      load_box(to, a, t.a, t.b + k, full);
      load_box(to + kPiece, a, t.a + 64, t.b + k, full);
#pragma unroll
      for (int r = 0; r < kN; r += 64) load_box(columns + r * kDepth * 2, b, t.column + r, t.b + k, full);
    } else {
      load_box(to, a, k, t.a, full);
      if (both) load_box(to + kPiece, a, k, t.a + 64, full);
      if constexpr (kB == Major::k) {
        load_box(columns, b, k, t.column, t.group, full);
      } else {
#pragma unroll
        for (int r = 0; r < kN; r += 64)
          load_box(columns + r * kDepth * 2, b, t.column + r, k, t.group, full);
      }
    }
  }
  static __device__ void run(const CUtensorMap& a, const CUtensorMap& b, const GroupedShape& shape,
                             const GroupedShared<kN>& memory, TilePlan& plan) {
    prefetch_map(a);
    prefetch_map(b);
    Ring<L::kStages> at;
    const int tiles = Tiles::count(shape, plan.table);
    int i = blockIdx.x, n = 0;
    for (int next = 0; i < tiles; i = next, ++n) {
      const GroupTile t = Tiles::at(shape, plan.table, i);
      if (!Tiles::kCutDepth) plan.announced[n % TilePlan::kAnnounced] = t;
      next = Tiles::kCutDepth ? i + static_cast<int>(gridDim.x) : claim(shape);
      const bool both = Tiles::kCutDepth || t.row + 64 < t.row_end;
      for (int k = 0; k < t.depth_blocks; ++k) {
        Barrier& full = memory.full[at.stage];
        memory.empty[at.stage].wait(at.parity ^ 1);
        full.arrive_expecting(both ? L::kStageBytes : L::kStageBytes - kPiece);
        load(memory.ring + at.stage * L::kStageBytes, a, b, t, k * kDepth, both, full);
        at.advance();
      }
    }
    if (!Tiles::kCutDepth) {  // a tile without depth ends the walk
      plan.announced[n % TilePlan::kAnnounced].depth_blocks = 0;
      memory.empty[at.stage].wait(at.parity ^ 1);
      memory.full[at.stage].arrive();
    }
  }

 private:
  /// The next tile that no block has. Its latency passes while the stages of the tile before are fetched.
  static __device__ int claim(const GroupedShape& shape) {
    return static_cast<int>(gridDim.x) + atomicAdd(shape.claimed, 1);
  }
};

/// Both warpgroups clear what the last stage of a group holds of the rows after it. A line of k is 128 bytes
/// of each piece of 64 lines, wherever the swizzle puts them.
template <int kN>
struct ClearTail {
  const GroupedShared<kN>& memory;
  int last, tail;  ///< stage of the chain, and its lines that count

  __device__ void operator()(int k, int stage) const {
    if (k != last || tail == kDepth) return;
    constexpr int kPiece = GroupedLayout<kN>::kPiece, kVectors = kPiece / 16;
    uint8_t* at = memory.ring + stage * GroupedFit<kN>::kStageBytes;
    for (int piece = 0; piece < GroupedFit<kN>::kStageBytes / kPiece; ++piece, at += kPiece) {
      for (int i = tail * 8 + static_cast<int>(threadIdx.x) - 128; i < kVectors; i += 128 * kConsumers)
        reinterpret_cast<uint4*>(at)[i] = uint4{};
    }
    fence_for_copy();
    asm volatile("bar.sync 1, %0;" ::"n"(128 * kConsumers) : "memory");
  }
};

template <int kN, class Tiles, Major kB, bool kChunked, Store kStore>
struct GroupedConsumer {
  using L = GroupedFit<kN>;
  using Dense = Consumer<kN, Tiles::kA, kB, kChunked, kStore, L>;
  static constexpr int kRegisters = Dense::kRegisters;

  static __device__ void run(const CUtensorMap& y, const GroupedShape& shape, const DeviceEpilogue& epilogue,
                             const GroupedShared<kN>& memory, const TilePlan& plan) {
    const int group = static_cast<int>(threadIdx.x) / 128 - 1;
    Writer<kN, kStore, typename L::Out> writer(y, epilogue, 0, shape.columns,
                                               memory.out + group * L::Out::kBytes, memory.scales);
    Ring<L::kStages> at;
    const int tiles = Tiles::count(shape, plan.table);
    for (int i = blockIdx.x, n = 0;; i += gridDim.x, ++n) {
      GroupTile t;
      if constexpr (Tiles::kCutDepth) {
        if (i >= tiles) break;
        t = Tiles::at(shape, plan.table, i);
      } else {
        memory.full[at.stage].wait(at.parity);
        t = plan.announced[n % TilePlan::kAnnounced];
        if (t.depth_blocks == 0) break;
      }
      const int row = t.row + 64 * group;
      writer.end_rows(t.row_end);
      const bool any = t.depth_blocks > 0;  // the scales of a group without rows are nobody's
      writer.fetch_scales(row, t.column,
                          any && epilogue.a != nullptr ? epilogue.a + t.group * shape.a_group : nullptr,
                          any && epilogue.b != nullptr ? epilogue.b + t.group * shape.b_group : nullptr);
      if (!Tiles::kCutDepth && row >= t.row_end) {
        pass(t.depth_blocks, group, memory, at);
        writer.share_scales();
        continue;
      }
      float d[kRegisters];
      if constexpr (kChunked) {
        float total[kRegisters];
        if (!any) clear(total);
        for (int k = 0; k < t.depth_blocks; k += shape.chunk_blocks) {
          const int count = min(shape.chunk_blocks, t.depth_blocks - k);
          chain(d, count, k + count == t.depth_blocks ? t.tail : kDepth, group, memory, at);
#pragma unroll
          for (int j = 0; j < kRegisters; ++j) total[j] = k == 0 ? d[j] : total[j] + d[j];
        }
        writer.share_scales();
        if (row < t.row_end) writer.write(total, row, t.column);
      } else {
        if (any) {
          chain(d, t.depth_blocks, t.tail, group, memory, at);
        } else {
          clear(d);
        }
        writer.share_scales();
        if (row < t.row_end) writer.write(d, row, t.column);
      }
    }
    writer.finish();
  }

 private:
  static __device__ void clear(float (&d)[kRegisters]) {
#pragma unroll
    for (int j = 0; j < kRegisters; ++j) d[j] = 0.0f;
  }
  static __device__ void chain(float (&d)[kRegisters], int count, int tail, int group,
                               const GroupedShared<kN>& memory, Ring<L::kStages>& at) {
    if constexpr (Tiles::kCutDepth) {
      Dense::chain(d, count, group, memory, at, ClearTail<kN>{memory, count - 1, tail});
    } else {
      Dense::chain(d, count, group, memory, at);
    }
  }
  /// Gives back stages that this warpgroup has no rows of. One thread waits for them: nothing keeps the
  /// others in step, and one that fell behind by two rounds of the ring would wait for ever.
  static __device__ void pass(int count, int group, const GroupedShared<kN>& memory, Ring<L::kStages>& at) {
    asm volatile("bar.sync %0, 128;" ::"r"(2 + group) : "memory");  // all have read the tile's place
    const bool speaks = threadIdx.x % 128 == 0;
    for (int k = 0; k < count; ++k) {
      if (speaks) {
        memory.full[at.stage].wait(at.parity);
        memory.empty[at.stage].arrive();
      }
      at.advance();
    }
    __syncwarp();
  }
};

template <int kN, class Tiles, Major kB, bool kChunked, Store kStore>
__global__ void __launch_bounds__(kThreads, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                   const __grid_constant__ CUtensorMap y, GroupedShape shape, DeviceEpilogue epilogue) {
  extern __shared__ uint8_t raw[];
  const GroupedShared<kN> memory(raw);
  auto& plan = *reinterpret_cast<TilePlan*>(raw + GroupedLayout<kN>::kPlanAt);
  if (!Tiles::kCutDepth) plan.table.fill(shape.groups, kTileRows);
  start_barriers(memory, 1);
  if (threadIdx.x < 128) {
    give_registers<24>();
    if (threadIdx.x == 0) GroupedProducer<kN, Tiles, kB>::run(a, b, shape, memory, plan);
  } else {
    take_registers<240>();
    GroupedConsumer<kN, Tiles, kB, kChunked, kStore>::run(y, shape, epilogue, memory, plan);
  }
}

}  // namespace minite::cuda::sm90
