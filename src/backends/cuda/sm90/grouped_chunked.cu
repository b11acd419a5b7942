#include "backends/cuda/sm90/grouped_launch.h"

namespace minite::cuda::sm90 {

void grouped_chunked(const GroupedProduct& product, const GroupedEpilogue& epilogue, void* stream) {
  launch_grouped<192, true>(product, epilogue, stream);
}

}  // namespace minite::cuda::sm90
