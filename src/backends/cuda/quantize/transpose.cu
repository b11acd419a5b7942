// transpose_codes: a thread owns one byte of codes of the output; the first byte of a block also moves the
// scale, the first byte of all the outer scale.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/kernels.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 256;

template <int kBits>
__device__ uint8_t code_at(const DeviceCodes& q, int64_t r, int64_t c) {
  const uint8_t* row = q.codes + r * q.code_stride;
  if (kBits == 8) return row[c];
  return static_cast<uint8_t>(c % 2 == 0 ? row[c / 2] & 15u : row[c / 2] >> 4);
}

template <int kBits, int kBlock>
__global__ void __launch_bounds__(kThreads) transpose_kernel(DeviceCodes q, DeviceCodes out, bool outer) {
  const uint32_t item = blockIdx.x * kThreads + threadIdx.x;
  // Neighbouring threads take neighbouring rows of the output, which are neighbouring columns of q.
  const int64_t r = item % static_cast<uint32_t>(out.rows), byte = item / static_cast<uint32_t>(out.rows);
  if (byte >= out.code_stride) return;
  if (item == 0 && outer) {
    *out.outer = *q.outer;
    *out.amax = *q.amax;
  }
  const int64_t c = byte * 8 / kBits;
  uint8_t code = code_at<kBits>(q, c, r);
  if (kBits == 4 && c + 1 < out.cols) code = static_cast<uint8_t>(code | code_at<kBits>(q, c + 1, r) << 4);
  out.codes[r * out.code_stride + byte] = code;
  if (c % kBlock == 0)
    out.scales[r * out.scale_stride + c / kBlock] = q.scales[c * q.scale_stride + r / kBlock];
}

}  // namespace

void transpose(const TransposeCodesArgs& args, const Exec& exec) {
  const DeviceCodes q = device_codes(args.q), out = device_codes(args.out);
  const uint32_t items = item_count("transpose_codes", out.rows * out.code_stride);
  const auto kernel = args.q.spec.format == FormatId::nvfp4   ? transpose_kernel<4, 16>
                      : args.q.spec.format == FormatId::mxfp4 ? transpose_kernel<4, 32>
                                                              : transpose_kernel<8, 32>;
  const bool outer = args.q.outer_count() > 0;
  kernel<<<blocks(items, kThreads), kThreads, 0, stream_of(exec)>>>(q, out, outer);
  check(cudaGetLastError(), "transpose_codes");
}

}  // namespace minite::cuda
