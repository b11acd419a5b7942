#include "backends/cuda/sm90/gemm_launch.h"

namespace minite::cuda::sm90 {

void gemm_wide(const DenseProduct& product, const DeviceEpilogue& epilogue, void* stream) {
  launch_gemm<256, false>(product, epilogue, stream);
}

}  // namespace minite::cuda::sm90
