// MXFP8 and MXFP4 under te and rceil (formats/mx_rules.cpp says both): a thread owns a block of 32. The two
// differ in what infinities and NaN become, and in the sign of E2M1 zeros.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/group_place.h"
#include "backends/cuda/quantize/kernels.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 128;
enum class Rule : uint8_t { te, rceil };

template <class Codec>
inline constexpr int kBits = 8;
template <>
inline constexpr int kBits<E2M1> = 4;

template <Rule kRule>
__device__ uint8_t scale_byte(float amax, float inverse_max) {
  if (kRule == Rule::rceil && !(amax <= 3.40282346638528859812e+38f)) return E8M0::kNaN;
  return E8M0::encode_round_up(amax * inverse_max);
}

__device__ uint8_t te_code(E2M1, float y) { return E2M1::encode(y); }
template <class Codec>
__device__ uint8_t te_code(Codec, float y) {
  return codec_detail::is_nan(y) ? E4M3::kNaN : Codec::encode(y);
}

/// fl(x * factor) with the NaN of an x86 product: x's own, quiet, else the factor's; 0 * inf is negative.
__device__ float x86_product(float x, float factor) {
  const float y = x * factor;
  if (!codec_detail::is_nan(y)) return y;
  const float from = codec_detail::is_nan(x) ? x : factor;
  return __uint_as_float(codec_detail::is_nan(from) ? __float_as_uint(from) | 0x00400000u : 0xFFC00000u);
}
template <class Codec>
__device__ uint8_t rceil_code(Codec, float y) {
  return Codec::encode(y);
}
/// Zeros keep their sign; the bits of a NaN are rounded like a number's.
__device__ uint8_t rceil_code(E2M1, float y) {
  const uint32_t u = __float_as_uint(y), m = u & 0x7FFFFFFFu;
  if (codec_detail::is_nan(y))
    return static_cast<uint8_t>((((m - 0x3F000000u + 0x1FFFFFu + (m >> 22 & 1u)) >> 22) | u >> 31 << 3) &
                                15u);
  return static_cast<uint8_t>(E2M1::encode(__uint_as_float(m)) | u >> 31 << 3);
}

/// The block at a place. In a tile all lanes call it.
template <class Codec, Rule kRule>
__device__ void mx_place(const QuantizeJob& job, const Place& at) {
  float v[32];
  load_block<32>(job.x, at.r, at.b * 32, v);
  const uint32_t own = amax_bits<32>(v);
  const float amax = __uint_as_float(job.tile ? tile_max<32>(own) : own);
  if (!at.inside) return;
  const uint8_t scale = scale_byte<kRule>(amax, 1.0f / Codec::kMax);
  float factor = E8M0::inverse(scale);
  if (kRule == Rule::rceil && scale == E8M0::kNaN) factor = __uint_as_float(0x7F800001u);
  uint8_t code[32];
#pragma unroll
  for (int i = 0; i < 32; ++i)
    code[i] =
        kRule == Rule::te ? te_code(Codec{}, v[i] * factor) : rceil_code(Codec{}, x86_product(v[i], factor));
  if (job.out.codes != nullptr) {
    job.out.scales[at.r * job.out.scale_stride + at.b] = scale;
    store_codes<kBits<Codec>, 32>(job.out, at.r, at.b * 32, code);
  }
  if (job.decoded == nullptr) return;
  const float d = E8M0::decode(scale);
  bf16* to = job.decoded + at.r * job.decoded_stride + at.b * 32 * job.decoded_step;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (at.b * 32 + i < job.decoded_cols) to[i * job.decoded_step] = bf16(d * Codec::decode(code[i]));
  }
}

template <class Codec, Rule kRule>
__global__ void __launch_bounds__(kThreads) mx_kernel(QuantizeJob job, bool down) {
  mx_place<Codec, kRule>(job, place<32>(blockIdx.x * kThreads + threadIdx.x, job.out, down));
}
template <class Codec, Rule kRule>
__global__ void __launch_bounds__(kThreads) mx_group_kernel(QuantizeJob job) {
  __shared__ BlockTable table;
  table.fill(job.groups, 32);
  const GroupPlace place = group_place<32, kBits<Codec>>(job, table, blockIdx.x * kThreads + threadIdx.x);
  if (place.at.inside) mx_place<Codec, kRule>(place.job, place.at);
}

struct Kernels {
  void (*matrix)(QuantizeJob, bool);
  void (*groups)(QuantizeJob);
};
template <class Codec, Rule kRule>
constexpr Kernels kKernels = {mx_kernel<Codec, kRule>, mx_group_kernel<Codec, kRule>};
template <class Codec>
Kernels kernels_of(Convention convention) {
  return convention == Convention::te ? kKernels<Codec, Rule::te> : kKernels<Codec, Rule::rceil>;
}
Kernels kernels_of(const QuantSpec& spec) {
  if (spec.format == FormatId::mxfp4) return kernels_of<E2M1>(spec.convention);
  return spec.format == FormatId::mxfp8 ? kernels_of<E4M3>(spec.convention)
                                        : kernels_of<E5M2>(spec.convention);
}

}  // namespace

void mx_quantize(const QuantizeJob& job, const QuantSpec& spec, const Exec& exec) {
  const bool down = job.tile || job.x.columns;
  const int64_t rows = down ? (job.out.rows + 31) / 32 * 32 : job.out.rows;
  const uint32_t items = item_count("quantize", rows * job.out.scale_stride);
  kernels_of(spec).matrix<<<blocks(items, kThreads), kThreads, 0, stream_of(exec)>>>(job, down);
  check(cudaGetLastError(), "quantize");
}

void mx_groups(const QuantizeJob& job, const QuantSpec& spec, const Exec& exec) {
  const uint32_t items = item_count("grouped_quantize", job.out.rows * job.out.scale_stride);
  kernels_of(spec).groups<<<blocks(items, kThreads), kThreads, 0, stream_of(exec)>>>(job);
  check(cudaGetLastError(), "grouped_quantize");
}

}  // namespace minite::cuda
