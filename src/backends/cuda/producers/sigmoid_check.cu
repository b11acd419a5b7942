// The short way to 1 / d against the division, for every d it may meet.
#include "backends/cuda/codecs_check.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/producers/sigmoid.h"

namespace minite::cuda {
namespace {

constexpr uint32_t kOne = 0x3F800000u, kEnd = 0x7E800000u;  // bits of 1 and of 2^126
constexpr unsigned kThreads = 256;

__global__ void reciprocal_kernel(unsigned* differences) {
  const uint32_t bits = kOne + blockIdx.x * kThreads + threadIdx.x;
  const float d = __uint_as_float(bits);
  if (bits < kEnd && __float_as_uint(reciprocal(d)) != __float_as_uint(1.0f / d)) atomicAdd(differences, 1u);
}

}  // namespace

uint32_t reciprocal_differences() {
  const std::array<unsigned, 1> none = {0};
  const DeviceArray<unsigned> differences{std::span<const unsigned>(none)};
  reciprocal_kernel<<<blocks(kEnd - kOne, kThreads), kThreads>>>(differences.data());
  return differences.to_host()[0];
}

}  // namespace minite::cuda
