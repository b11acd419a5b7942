#pragma once
// Launches one instance of grouped_kernel. For .cu files only.
#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/device.h"
#include "backends/cuda/sm90/grouped.h"
#include "backends/cuda/sm90/grouped_kernel.h"

namespace minite::cuda::sm90 {

template <int kN, class Tiles, Major kB, bool kChunked, Store kStore>
void launch_stored(const CUtensorMap& a, const CUtensorMap& b, const TensorView& y, GroupedShape shape,
                   const GroupedEpilogue& epilogue, int64_t tiles, void* stream) {
  constexpr auto kKernel = grouped_kernel<kN, Tiles, kB, kChunked, kStore>;
  constexpr int kBytes = GroupedLayout<kN>::kBytes;
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  check(kAllowed, "shared memory of a grouped product");
  shape.columns = static_cast<int>(y.cols);
  shape.tiles_n = (shape.columns + kN - 1) / kN;
  shape.a_group = epilogue.a_group;
  shape.b_group = epilogue.b_group;
  const auto grid = static_cast<unsigned>(std::min<int64_t>(tiles * shape.tiles_n, device().multiprocessors));
  const CUtensorMap out = kStore == Store::direct ? a : output_map(y, 64);
  kKernel<<<grid, kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(a, b, out, shape, epilogue.each);
  check(cudaGetLastError(), "grouped product");
}

/// Boxes where the copy engine can write y and nothing is added to it.
template <int kN, class Tiles, Major kB, bool kChunked>
void launch_tiles(const CUtensorMap& a, const CUtensorMap& b, const TensorView& y, const GroupedShape& shape,
                  const GroupedEpilogue& epilogue, int64_t tiles, void* stream) {
  const bool boxes = !epilogue.each.accumulate && tensor_map_problem(y).empty();
  const auto launch = boxes ? launch_stored<kN, Tiles, kB, kChunked, Store::mixed>
                            : launch_stored<kN, Tiles, kB, kChunked, Store::direct>;
  launch(a, b, y, shape, epilogue, tiles, stream);
}

template <int kN, bool kChunked>
void launch_grouped(const GroupedProduct& p, const GroupedEpilogue& epilogue, void* stream) {
  GroupedShape shape{};
  shape.groups = p.groups;
  shape.depth_blocks = static_cast<int>((p.k + kDepth - 1) / kDepth);
  shape.chunk_blocks = static_cast<int>((p.chunk + kDepth - 1) / kDepth);
  shape.claimed = p.claimed;
  // Each group has at most one cut tile.
  const int64_t tiles = p.groups.rows / kTileRows + std::min(p.groups.count, p.groups.rows);
  const CUtensorMap a = tensor_map(p.a, Major::k, 64), b = stacked_map(p.b, p.b_major, kN, p.groups.count);
  const auto launch = p.b_major == Major::k ? launch_tiles<kN, RowTiles<kN>, Major::k, kChunked>
                                            : launch_tiles<kN, RowTiles<kN>, Major::rows, kChunked>;
  launch(a, b, p.y, shape, epilogue, tiles, stream);
}

template <int kN, bool kChunked>
void launch_grouped(const GroupedWgrad& p, const GroupedEpilogue& epilogue, void* stream) {
  GroupedShape shape{};
  shape.groups = p.groups;
  shape.lines = static_cast<int>(p.a.cols);
  shape.tiles_m = (shape.lines + kTileRows - 1) / kTileRows;
  shape.chunk_blocks = static_cast<int>(p.chunk / kDepth);
  shape.adds = epilogue.each.accumulate;
  const CUtensorMap a = tensor_map(p.a, Major::rows, 64), b = tensor_map(p.b, Major::rows, kN);
  launch_tiles<kN, DepthTiles<kN>, Major::rows, kChunked>(a, b, p.y, shape, epilogue,
                                                          int64_t{p.groups.count} * shape.tiles_m, stream);
}

}  // namespace minite::cuda::sm90
