#include "backends/cuda/sm90/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include "core/fail.h"

namespace minite::cuda::sm90 {
namespace {

/// The driver's function; the library does not link the driver, which a machine without a device lacks.
PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
    fail(ErrorCode::unsupported,
         "CUDA: the driver has no cuTensorMapEncodeTiled ({}); update it to CUDA 12 or later",
         cudaGetErrorString(error));
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

std::string tensor_map_problem(const TensorView& x) {
  const auto address = reinterpret_cast<uintptr_t>(x.data);
  if (address % 16 != 0)
    return fmt::format(
        "the matrix starts {} bytes past a multiple of 16; the copy engine needs 16-byte starts",
        address % 16);
  if (x.stride * 2 % 16 != 0)
    return fmt::format("rows are {} elements apart; the copy engine needs a multiple of 8 (16 bytes)",
                       x.stride);
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (x.rows >= kLimit || x.cols >= kLimit)
    return fmt::format("a matrix of {}x{} is larger than coordinates of 32 bits", x.rows, x.cols);
  return {};
}

CUtensorMap tensor_map(const TensorView& x, Major major, int rows) {
  static const PFN_cuTensorMapEncodeTiled_v12000 kEncode = encoder();
  CUtensorMap map;
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(x.cols), static_cast<cuuint64_t>(x.rows)};
  const cuuint64_t pitch[1] = {static_cast<cuuint64_t>(x.stride) * 2};
  const cuuint32_t box[2] = {kDepth, static_cast<cuuint32_t>(major == Major::k ? rows : kDepth)};
  const cuuint32_t step[2] = {1, 1};
  const CUresult result = kEncode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, x.data, size, pitch, box, step,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(ErrorCode::internal, "CUDA: cuTensorMapEncodeTiled: error {} for {}x{} bf16, rows {} apart",
         static_cast<int>(result), x.rows, x.cols, x.stride);
  return map;
}

}  // namespace minite::cuda::sm90
