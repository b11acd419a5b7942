#include "backends/cuda/sm90/gemm_launch.h"

namespace minite::cuda::sm90 {

void gemm_chunked(const DenseProduct& product, const DeviceEpilogue& epilogue, void* stream) {
  launch_gemm<192, true>(product, epilogue, stream);
}

}  // namespace minite::cuda::sm90
