// NVFP4 with a scale a tile of 16 x 16, along rows, columns or both.
#include "backends/cuda/quantize/tile_kernel.h"

namespace minite::cuda {

TileLaunch small_tiles(bool rows, bool columns) {
  if (!columns) return launch_tiles<Way::tile, Way::none, false, true>;
  return rows ? launch_tiles<Way::tile, Way::tile, false, true>
              : launch_tiles<Way::none, Way::tile, false, true>;
}

}  // namespace minite::cuda
