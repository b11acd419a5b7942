#pragma once
// Which tile of a grouped product comes next. The bounds of the groups are read once by each block, which
// then finds its tiles in a table in shared memory: no group costs anything but its own tiles, and an empty
// one has none.
#include "backends/cuda/common/groups.h"
#include "backends/cuda/sm90/gemm_kernel.h"

namespace minite::cuda::sm90 {

/// What fits beside the ring of 128 x 256 tiles. More groups share entries.
using TileTable = UnitTable<128>;

struct GroupedShape {
  DeviceGroups groups;
  int columns;           ///< of y
  int lines;             ///< rows of y a group, in a weight gradient
  int tiles_m, tiles_n;  ///< of a group; tiles_m in a weight gradient
  int depth_blocks;      ///< ceil(K / 64)
  int chunk_blocks;      ///< depth blocks of a chunk
  int64_t a_group, b_group;
  bool adds;     ///< to y: groups without rows are left out
  int* claimed;  ///< tiles that blocks have taken beyond their first, 0 before the launch (not weight
                 ///< gradients)
};

/// One tile of y and where its operands begin.
struct alignas(16) GroupTile {
  int group;
  int row, row_end;  ///< rows of y from row_end on are not this group's
  int column;
  int a, b;  ///< first line of a; first packed row of the contraction (a weight gradient)
  int depth_blocks;
  int tail;  ///< k of the last depth block that count
};

/// The tables of a block, in shared memory. The copying thread finds a tile's place while the tiles before
/// are multiplied, and tells the others with the tile's first stage. It is never more tiles ahead than there
/// are stages, five.
struct TilePlan {
  static constexpr int kAnnounced = 8;
  GroupTile announced[kAnnounced];  ///< tile i of the block in place i % kAnnounced
  TileTable table;
};

/// Rows of groups times their weights: within a group 16 tiles of rows share columns of the weight.
template <int kN>
struct RowTiles {
  static constexpr Major kA = Major::k;
  static constexpr bool kCutDepth = false;  ///< the copy engine fills what lies past K with zeros

  static __device__ int count(const GroupedShape& s, const TileTable& table) {
    return table.units(s.groups) * s.tiles_n;
  }
  static __device__ GroupTile at(const GroupedShape& s, const TileTable& table, int i) {
    const GroupUnit u = table.find(s.groups, i / s.tiles_n, kTileRows);
    const int tiles_m = (u.rows + kTileRows - 1) / kTileRows;
    const int j = u.unit * s.tiles_n + i % s.tiles_n, band = kRasterRows * s.tiles_n;
    const int first = j / band * kRasterRows, rows = min(kRasterRows, tiles_m - first);
    const int row = u.begin + (first + j % band % rows) * kTileRows;
    return {u.group, row, u.begin + u.rows, j % band / rows * kN, row, 0, s.depth_blocks, kDepth};
  }
};

/// Weight gradients: every group has the same tiles, as deep as it has rows.
template <int kN>
struct DepthTiles {
  static constexpr Major kA = Major::rows;
  static constexpr bool kCutDepth = true;  ///< the rows after a group's last are the next group's

  static __device__ int count(const GroupedShape& s, const TileTable&) {
    return s.groups.count * s.tiles_m * s.tiles_n;
  }
  static __device__ GroupTile at(const GroupedShape& s, const TileTable&, int i) {
    const int each = s.tiles_m * s.tiles_n, group = i / each, j = i % each;
    const int begin = group_begin(s.groups, group), rows = group_begin(s.groups, group + 1) - begin;
    const int line = j % s.tiles_m * kTileRows, blocks = (rows + kDepth - 1) / kDepth;
    return {.group = group,
            .row = group * s.lines + line,
            .row_end = rows == 0 && s.adds ? 0 : (group + 1) * s.lines,
            .column = j / s.tiles_m * kN,
            .a = line,
            .b = begin,
            .depth_blocks = blocks,
            .tail = rows - (blocks - 1) * kDepth};
  }
};

}  // namespace minite::cuda::sm90
