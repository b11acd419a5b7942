// Products by group of few rows each with prepacked NVFP4 weights. A unit is up to 16 rows of a group; a
// block has some row tiles of the weights for one unit, a warp one or two of them, as in gemm_few.cu: while
// it finishes the first, the second is on its way. A warp adds the chunks of K one after the other. Two
// blocks share a multiprocessor, so that one multiplies while the other starts.
#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/few_parts.h"
#include "backends/cuda/sm90/grouped_few.h"

namespace minite::cuda::sm90 {
namespace {

constexpr int kUnitRows = 16, kMostWarps = 12;
constexpr int kStages = 3, kPairs = 2;
using Values = ValueRing<kStages, kPairs>;
constexpr int kWeightBytes = WarpRows<1, kStages, kPairs>::kWeightBytes;
constexpr int kValueBytes = kUnitRows * Values::kPitch;
using Table = UnitTable<128>;

struct GroupedFewShape {
  int columns;  ///< N
  int tiles;    ///< row tiles of a group's weights
  int warps;    ///< of a block that multiply
  int rounds;   ///< row tiles of a warp
  int blocks;   ///< of a unit
  int chunk;    ///< stages of a chunk
  int64_t a_group, b_group;
};

/// A block's shared memory: the warps' rings, the ring of values, barriers, the units.
struct GroupedFewMemory {
  uint8_t *weights, *values;
  Barrier *weights_full, *values_full, *values_empty;
  Table* table;

  static constexpr int bytes(int warps) {
    return kStages * (warps * kWeightBytes + kValueBytes + (warps + 2) * 8) + static_cast<int>(sizeof(Table));
  }
  __device__ GroupedFewMemory(uint8_t* raw, int warps)
      : weights(raw), values(raw + kStages * warps * kWeightBytes) {
    weights_full = reinterpret_cast<Barrier*>(values + kStages * kValueBytes);
    values_full = weights_full + kStages * warps;
    values_empty = values_full + kStages;
    table = reinterpret_cast<Table*>(values_empty + kStages);
  }
  __device__ void start(int warps) const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages * warps; ++i) weights_full[i].init(1);
      for (int s = 0; s < kStages; ++s) {
        values_full[s].init(1);
        values_empty[s].init(static_cast<uint32_t>(32 * warps));
      }
      fence_barrier_init();
    }
    __syncthreads();
  }
};

/// What a block computes: rows [row, row + count) of the packed ones, of `group`, times its weights from row
/// tile `tile` on.
struct Share {
  int group, tile, row, count;
};

/// A warp's row tiles times the rows, at most 8 kTiles of them. Warps beyond the last tile multiply the last
/// one again, so that the ring of values sees all of them, and store nothing.
template <int kTiles>
__device__ void multiply(const GroupedFewOperands& in, const GroupedFewShape& shape,
                         const DeviceEpilogue& epilogue, const GroupedFewMemory& memory, const Share& share) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  DeviceEpilogue own = epilogue;
  own.a = epilogue.a == nullptr ? nullptr : epilogue.a + share.group * shape.a_group;
  own.b = epilogue.b == nullptr ? nullptr : epilogue.b + share.group * shape.b_group;
  own.bias = nullptr;  // what products by group never have, known here
  own.te_range = 0.0f;
  own.accumulate = false;
  const int first = min(share.tile + warp, shape.tiles - 1),
            second = min(share.tile + warp + shape.warps, shape.tiles - 1);
  WarpRows<kTiles, kStages, kPairs> rows(in.w, share.group * shape.tiles + first, 0, in.w.pairs,
                                         memory.weights + warp * kStages * kWeightBytes,
                                         memory.weights_full + warp * kStages, shape.rounds, second - first);
  rows.start();
  Ring<kStages> at;
  const uint32_t values = shared_address(memory.values) + lane % 8 * Values::kPitch + lane / 8 * 16;
  for (int round = 0; round < shape.rounds; ++round) {
    float total[kTiles][4];
    for (int begin = 0; begin < rows.stages(); begin += shape.chunk) {
      float d[kTiles][4] = {};
      for (int s = begin; s < min(begin + shape.chunk, rows.stages()); ++s) {
        memory.values_full[at.stage].wait(at.parity);
        rows.stage(d, s, values + at.stage * kValueBytes, 8 * Values::kPitch);
        memory.values_empty[at.stage].arrive();
        at.advance();
      }
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total[t][i] = begin == 0 ? d[t][i] : total[t][i] + d[t][i];
      }
    }
    const int tile = share.tile + round * shape.warps + warp;
    if (tile >= shape.tiles) continue;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
      finish(own, shape.columns, share.row + share.count,
             make_float4(total[t][0], total[t][1], total[t][2], total[t][3]), tile * kFragmentRows,
             share.row + t * 8);
  }
}

__global__ void __launch_bounds__(32 * (kMostWarps + 1), 2)
    grouped_few_kernel(GroupedFewOperands in, GroupedFewShape shape, DeviceEpilogue epilogue) {
  extern __shared__ __align__(128) uint8_t raw[];
  const GroupedFewMemory memory(raw, shape.warps);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int unit = static_cast<int>(blockIdx.x) / shape.blocks;
  memory.table->fill(in.groups, kUnitRows);
  if (unit >= memory.table->units(in.groups)) return;
  const GroupUnit at = memory.table->find(in.groups, unit, kUnitRows);
  const Share share = {.group = at.group,
                       .tile = static_cast<int>(blockIdx.x) % shape.blocks * shape.warps * shape.rounds,
                       .row = at.begin + at.unit * kUnitRows,
                       .count = min(kUnitRows, at.rows - at.unit * kUnitRows)};
  memory.start(shape.warps);
  if (warp == shape.warps) {
    Values::copy(in.x + share.row * in.x_stride, in.x_stride, share.count, in.w.pairs, memory.values,
                 kValueBytes, memory.values_full, memory.values_empty, shape.rounds);
    return;
  }
  share.count <= 8 ? multiply<1>(in, shape, epilogue, memory, share)
                   : multiply<2>(in, shape, epilogue, memory, share);
}

/// Units at most, however the rows are spread.
int64_t most_units(int64_t rows, int64_t groups) { return std::min(rows, rows / kUnitRows + groups); }

}  // namespace

bool grouped_few_fits(int64_t rows, int64_t groups, int64_t n, int64_t k) {
  const int64_t tiles = n / kFragmentRows, blocks = (tiles + kMostWarps - 1) / kMostWarps;
  return n % kFragmentRows == 0 && k % kPairDepth == 0 && groups * tiles < (int64_t{1} << 31) &&
         most_units(rows, groups) * blocks < (int64_t{1} << 31);
}

void grouped_few(const GroupedFewOperands& in, const GroupedEpilogue& epilogue, void* on) {
  const auto tiles = static_cast<int>(in.n / kFragmentRows);
  GroupedFewShape shape{};
  shape.columns = static_cast<int>(in.n);
  shape.tiles = tiles;
  constexpr int kMostTiles = 2 * kMostWarps;
  shape.blocks = (tiles + kMostTiles - 1) / kMostTiles;
  const int each = (tiles + shape.blocks - 1) / shape.blocks;
  shape.rounds = each > kMostWarps ? 2 : 1;
  shape.warps = (each + shape.rounds - 1) / shape.rounds;
  shape.chunk = static_cast<int>((chunk_length(in.n, in.k) / kPairDepth + kPairs - 1) / kPairs);
  shape.a_group = epilogue.a_group;
  shape.b_group = epilogue.b_group;
  const int64_t units = most_units(in.groups.rows, in.groups.count);
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(grouped_few_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
  check(kAllowed, "grouped_gemm");
  grouped_few_kernel<<<static_cast<unsigned>(units * shape.blocks), 32 * (shape.warps + 1),
                       GroupedFewMemory::bytes(shape.warps), static_cast<cudaStream_t>(on)>>>(in, shape,
                                                                                              epilogue.each);
  check(cudaGetLastError(), "grouped_gemm");
}

}  // namespace minite::cuda::sm90
