// The codecs of formats/codecs.h and core/philox.h as device code, for any architecture.
#include "backends/cuda/codecs_check.h"
#include "backends/cuda/common/launch.h"
#include "core/philox.h"
#include "formats/codecs.h"
#include "minite/tensor.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 256;

__device__ size_t element() { return size_t{blockIdx.x} * blockDim.x + threadIdx.x; }

__global__ void decode_kernel(float amax, float* out) {
  const size_t i = element();  // one block of 256 threads holds 16 scales; 16 blocks hold all 256
  const float d = E4M3::decode(static_cast<uint8_t>(i / 16));
  constexpr float kPerRange = 1.0f / 2688.0f;
  out[i] = E2M1::decode(static_cast<uint8_t>(i % 16)) * (d * amax * kPerRange);
}

__global__ void encode_kernel(const float* in, size_t count, Encoded* out) {
  const size_t i = element();
  if (i >= count) return;
  const float x = in[i];
  out[i] = {E2M1::encode(x),
            E4M3::encode(x),
            E5M2::encode(x),
            E8M0::encode_round_up(x),
            E2M1::encode_stochastic(x, static_cast<uint32_t>(i % 256)),
            ExMy<5, 1>::encode(x),
            ExMy<2, 4>::encode(x),
            bf16(x).bits};
}

__global__ void philox_kernel(uint64_t key, uint64_t count, std::array<uint32_t, 4>* out) {
  const size_t i = element();
  if (i < count) out[i] = Philox::generate(key, i, 1);
}

}  // namespace

std::vector<float> decode_nvfp4(float amax) {
  const DeviceArray<float> out(4096);
  decode_kernel<<<4096 / kThreads, kThreads>>>(amax, out.data());
  return out.to_host();
}

std::vector<Encoded> encode(std::span<const float> values) {
  const DeviceArray<float> in(values);
  const DeviceArray<Encoded> out(values.size());
  encode_kernel<<<blocks(values.size(), kThreads), kThreads>>>(in.data(), values.size(), out.data());
  return out.to_host();
}

std::vector<std::array<uint32_t, 4>> philox(uint64_t key, uint64_t count) {
  const DeviceArray<std::array<uint32_t, 4>> out(count);
  philox_kernel<<<blocks(count, kThreads), kThreads>>>(key, count, out.data());
  return out.to_host();
}

}  // namespace minite::cuda
