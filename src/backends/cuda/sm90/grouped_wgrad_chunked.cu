#include "backends/cuda/sm90/grouped_launch.h"

namespace minite::cuda::sm90 {

void grouped_wgrad_chunked(const GroupedWgrad& product, const GroupedEpilogue& epilogue, void* stream) {
  launch_grouped<192, true>(product, epilogue, stream);
}

}  // namespace minite::cuda::sm90
