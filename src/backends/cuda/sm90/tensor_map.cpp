#include "backends/cuda/sm90/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <array>

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

/// A map of `count` matrices, `pitch` bytes between rows; no zeros are left for `pitch` bytes to hide in. One
/// matrix is a map of two dimensions.
CUtensorMap encode(CUtensorMapDataType type, void* data, std::array<int64_t, 2> size, int64_t pitch,
                   std::array<int, 2> box, CUtensorMapSwizzle swizzle, int64_t count = 0) {
  static const PFN_cuTensorMapEncodeTiled_v12000 kEncode = encoder();
  CUtensorMap map;
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(size[0]), static_cast<cuuint64_t>(size[1]),
                               static_cast<cuuint64_t>(count)};
  const cuuint64_t pitches[2] = {static_cast<cuuint64_t>(pitch), static_cast<cuuint64_t>(pitch * size[1])};
  const cuuint32_t boxes[3] = {static_cast<cuuint32_t>(box[0]), static_cast<cuuint32_t>(box[1]), 1};
  const cuuint32_t step[3] = {1, 1, 1};
  const CUresult result = kEncode(&map, type, count == 0 ? 2 : 3, data, sizes, pitches, boxes, step,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(ErrorCode::internal, "CUDA: cuTensorMapEncodeTiled: error {} for {}x{}, rows {} bytes apart",
         static_cast<int>(result), size[1], size[0], pitch);
  return map;
}

}  // namespace

std::string tensor_map_problem(const TensorView& x) {
  const auto address = reinterpret_cast<uintptr_t>(x.data);
  if (address % 16 != 0)
    return fmt::format(
        "the matrix starts {} bytes past a multiple of 16; the copy engine needs 16-byte starts",
        address % 16);
  if (x.stride * dtype_size(x.dtype) % 16 != 0)
    return fmt::format("rows are {} elements apart; the copy engine needs a multiple of 16 bytes", x.stride);
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (x.rows >= kLimit || x.cols >= kLimit)
    return fmt::format("a matrix of {}x{} is larger than coordinates of 32 bits", x.rows, x.cols);
  return {};
}

CUtensorMap tensor_map(const TensorView& x, Major major, int rows) {
  return encode(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x.data, {x.cols, x.rows}, 2 * x.stride,
                {kDepth, major == Major::k ? rows : kDepth}, CU_TENSOR_MAP_SWIZZLE_128B);
}

CUtensorMap stacked_map(const TensorView& x, Major major, int rows, int64_t count) {
  return encode(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x.data, {x.cols, x.rows / count}, 2 * x.stride,
                {kDepth, major == Major::k ? rows : kDepth}, CU_TENSOR_MAP_SWIZZLE_128B, count);
}

CUtensorMap output_map(const TensorView& y, int rows) {
  const bool wide = y.dtype == DType::f32;
  return encode(wide ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, y.data,
                {y.cols, y.rows}, dtype_size(y.dtype) * y.stride,
                {static_cast<int>(128 / dtype_size(y.dtype)), rows}, CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace minite::cuda::sm90
