// NVFP4 with stochastic rounding along columns, or both ways.
#include "backends/cuda/quantize/tile_kernel.h"

namespace minite::cuda {

TileLaunch noisy_tiles(bool rows, bool rotated) {
  if (rows)
    return rotated ? launch_tiles<Way::noise, Way::noise, true, true>
                   : launch_tiles<Way::noise, Way::noise, false, true>;
  return rotated ? launch_tiles<Way::none, Way::noise, true, true>
                 : launch_tiles<Way::none, Way::noise, false, true>;
}

}  // namespace minite::cuda
