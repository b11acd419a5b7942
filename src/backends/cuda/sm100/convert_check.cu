// Blackwell's own FP4 conversion, to show that the codec and the instruction agree. Compiled only: no
// Blackwell device has run it.
#include "backends/cuda/codecs_check.h"
#include "backends/cuda/common/launch.h"

namespace minite::cuda::sm100 {
namespace {

__global__ void convert_kernel(const float* in, size_t count, uint8_t* out) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint32_t pair = 0;
  // The first source goes to the upper nibble; PTX has no 8-bit operands in asm, hence the move.
  asm("{ .reg .b8 p; cvt.rn.satfinite.e2m1x2.f32 p, %1, %2; cvt.u32.u8 %0, p; }"
      : "=r"(pair)
      : "f"(0.0f), "f"(in[i]));
  out[i] = static_cast<uint8_t>(pair & 0xF);
}

}  // namespace

std::vector<uint8_t> convert_e2m1(std::span<const float> values) {
  const DeviceArray<float> in(values);
  const DeviceArray<uint8_t> out(values.size());
  convert_kernel<<<blocks(values.size(), 256), 256>>>(in.data(), values.size(), out.data());
  return out.to_host();
}

}  // namespace minite::cuda::sm100
