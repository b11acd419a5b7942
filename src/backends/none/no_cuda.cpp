// Stands in for the CUDA backend in builds without it: the same symbol, and a sentence.
#include "backends/cuda/cuda.h"

namespace minite::cuda {

Backend backend() { return {"cuda", nullptr, "this build holds no CUDA kernels; use ref or simd", nullptr}; }

}  // namespace minite::cuda
