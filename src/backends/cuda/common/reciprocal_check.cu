// The short way to 1 / x against the division, for every x that it is for.
#include "backends/cuda/codecs_check.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/common/reciprocal.h"

namespace minite::cuda {
namespace {

constexpr uint32_t kFirst = 0x00800000u, kLast = 0x7E800000u;  // bits of 2^-126 and of 2^126
constexpr unsigned kThreads = 256;

__global__ void reciprocal_kernel(unsigned* differences) {
  const uint32_t bits = kFirst + blockIdx.x * kThreads + threadIdx.x;
  const float x = __uint_as_float(bits);
  if (bits <= kLast && __float_as_uint(quick_reciprocal(x)) != __float_as_uint(1.0f / x))
    atomicAdd(differences, 1u);
}

}  // namespace

uint32_t reciprocal_differences() {
  const std::array<unsigned, 1> none = {0};
  const DeviceArray<unsigned> differences{std::span<const unsigned>(none)};
  reciprocal_kernel<<<blocks(kLast - kFirst + 1, kThreads), kThreads>>>(differences.data());
  return differences.to_host()[0];
}

}  // namespace minite::cuda
