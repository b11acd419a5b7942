// The CUDA backend of builds that hold CUDA objects; none/no_cuda.cpp stands in otherwise.
#include "backends/cuda/cuda.h"

namespace minite::cuda {

Backend backend() {
  return {"cuda", nullptr,
          "built for sm_90a and sm_100a, but it holds codecs only: no op runs on it yet; use ref or simd"};
}

}  // namespace minite::cuda
