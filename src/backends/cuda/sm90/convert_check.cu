// Hopper's own FP8 conversion, to show that the codec and the instruction agree.
#include "backends/cuda/codecs_check.h"
#include "backends/cuda/common/launch.h"

namespace minite::cuda::sm90 {
namespace {

__global__ void convert_kernel(const float* in, size_t count, uint8_t* out) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint16_t pair = 0;
  // The first source goes to the upper byte.
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(in[i]));
  out[i] = static_cast<uint8_t>(pair);
}

}  // namespace

std::vector<uint8_t> convert_e4m3(std::span<const float> values) {
  const DeviceArray<float> in(values);
  const DeviceArray<uint8_t> out(values.size());
  convert_kernel<<<blocks(values.size(), 256), 256>>>(in.data(), values.size(), out.data());
  return out.to_host();
}

}  // namespace minite::cuda::sm90
