// dequantize: one thread decodes 8 elements of a row.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/common/operand.h"
#include "backends/cuda/kernels.h"

namespace minite::cuda {
namespace {

constexpr int kThreads = 256, kRun = 8;

__global__ void block_kernel(DeviceOperand q, int64_t rows, int64_t cols, bf16* y, int64_t stride) {
  const int64_t runs = (cols + kRun - 1) / kRun, i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= rows * runs) return;
  const int64_t r = i / runs, first = i % runs * kRun;
  for (int64_t c = first; c < first + kRun && c < cols; ++c) y[r * stride + c] = bf16(element(q, r, c));
}

}  // namespace

void decode_blocks(const QTensor& q, const TensorView& y, const Exec& exec) {
  const int64_t runs = q.rows * ((q.cols + kRun - 1) / kRun);
  if (runs == 0) return;
  block_kernel<<<blocks(static_cast<size_t>(runs), kThreads), kThreads, 0, stream_of(exec)>>>(
      device_operand(Operand::of(q)), q.rows, q.cols, y.as<bf16>(), y.stride);
  check(cudaGetLastError(), "dequantize");
}

}  // namespace minite::cuda
