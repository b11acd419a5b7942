#include "backends/cuda/common/decode_any.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/common/operand.h"

namespace minite::cuda {
namespace {

constexpr int kThreads = 256, kRun = 8;  ///< elements of a row that a thread decodes

__global__ void decode_kernel(DeviceOperand q, int64_t rows, int64_t cols, bf16* y, int64_t stride) {
  const int64_t runs = (cols + kRun - 1) / kRun, i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= rows * runs) return;
  const int64_t r = i / runs, first = i % runs * kRun;
  for (int64_t c = first; c < first + kRun && c < cols; ++c) y[r * stride + c] = bf16(element(q, r, c));
}

}  // namespace

void decode_any(const QTensor& q, const TensorView& y, const Exec& exec) {
  const int64_t runs = q.rows * ((q.cols + kRun - 1) / kRun);
  if (runs == 0) return;
  decode_kernel<<<blocks(static_cast<size_t>(runs), kThreads), kThreads, 0, stream_of(exec)>>>(
      device_operand(Operand::of(q)), q.rows, q.cols, y.as<bf16>(), y.stride);
  check(cudaGetLastError(), "decoding of an operand");
}

}  // namespace minite::cuda
