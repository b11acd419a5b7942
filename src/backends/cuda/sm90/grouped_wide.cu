#include "backends/cuda/sm90/grouped_launch.h"

namespace minite::cuda::sm90 {

void grouped_wide(const GroupedProduct& product, const GroupedEpilogue& epilogue, void* stream) {
  launch_grouped<256, false>(product, epilogue, stream);
}

}  // namespace minite::cuda::sm90
