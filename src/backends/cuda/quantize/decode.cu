// dequantize: a thread owns eight columns of a row. With block scales alone the products are exact, so the
// processor's BF16 multiplication gives them; with outer scales the order is the convention's, in FP32.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/packed.h"
#include "formats/codecs.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 256;
enum class Kind : uint8_t { nvfp4, mxfp4, e4m3, e5m2 };

struct DecodeJob {
  DeviceCodes q;
  void* y;
  int64_t stride;
  bool f32;
  Domain domain;  ///< none when the block scale alone multiplies
  float range;
  uint32_t per_row;  ///< threads of a row
  bool vectors;      ///< codes by 4 (8) bytes and y by 16 fit
};

__device__ void store(const DecodeJob& job, int64_t at, float value) {
  if (job.f32) {
    static_cast<float*>(job.y)[at] = value;
  } else {
    static_cast<bf16*>(job.y)[at] = bf16(value);
  }
}

/// The code of column c.
template <Kind kKind>
__device__ uint8_t code_at(const uint8_t* row, int64_t c) {
  if (kKind == Kind::e4m3 || kKind == Kind::e5m2) return row[c];
  return static_cast<uint8_t>(c % 2 == 0 ? row[c / 2] & 15u : row[c / 2] >> 4);
}
template <Kind kKind>
__device__ float value_of(uint8_t code, float d) {
  if constexpr (kKind == Kind::nvfp4) return E2M1::decode(code) * d;
  if constexpr (kKind == Kind::mxfp4) return d * E2M1::decode(code);
  return d * (kKind == Kind::e4m3 ? E4M3::decode(code) : E5M2::decode(code));
}
/// What the codes of a block are multiplied with.
template <Kind kKind>
__device__ float multiplier(const DecodeJob& job, int64_t r, int64_t c) {
  const uint8_t byte = job.q.scales[r * job.q.scale_stride + c / (kKind == Kind::nvfp4 ? 16 : 32)];
  if constexpr (kKind != Kind::nvfp4) return E8M0::decode(byte);
  const float d = E4M3::decode(byte);
  if (job.domain == Domain::none) return d;
  return d * job.q.amax[job.domain == Domain::row ? r : 0] * (1.0f / job.range);
}

/// Eight NVFP4 codes to BF16, all inside.
__device__ void decode_eight(const DecodeJob& job, int64_t r, int64_t c) {
  const float d = multiplier<Kind::nvfp4>(job, r, c);
  uint32_t v[4];
  decode_e2m1(*reinterpret_cast<const uint32_t*>(job.q.codes + r * job.q.code_stride + c / 2), v);
  const uint32_t both = pack_bf16(d, d);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    v[i] = job.domain == Domain::none ? multiply_bf16(v[i], both) : pack_bf16(low(v[i]) * d, high(v[i]) * d);
  *reinterpret_cast<uint4*>(static_cast<bf16*>(job.y) + r * job.stride + c) = {v[0], v[1], v[2], v[3]};
}

template <Kind kKind>
__global__ void __launch_bounds__(kThreads) decode_kernel(DecodeJob job) {
  const uint32_t item = blockIdx.x * kThreads + threadIdx.x;
  const int64_t r = item / job.per_row, c = item % job.per_row * 8;
  if (r >= job.q.rows) return;
  if (kKind == Kind::nvfp4 && job.vectors) return decode_eight(job, r, c);
  const uint8_t* codes = job.q.codes + r * job.q.code_stride;
  const float d = multiplier<kKind>(job, r, c);
  for (int i = 0; i < 8; ++i) {
    if (c + i < job.q.cols)
      store(job, r * job.stride + c + i, value_of<kKind>(code_at<kKind>(codes, c + i), d));
  }
}

using Kernel = void (*)(DecodeJob);
Kernel kernel_of(FormatId format) {
  switch (format) {
    case FormatId::nvfp4:
      return decode_kernel<Kind::nvfp4>;
    case FormatId::mxfp4:
      return decode_kernel<Kind::mxfp4>;
    case FormatId::mxfp8:
      return decode_kernel<Kind::e4m3>;
    default:
      return decode_kernel<Kind::e5m2>;
  }
}

}  // namespace

void decode(const DequantizeArgs& args, const Exec& exec) {
  const bool fits = args.y.dtype == DType::bf16 && vectors_fit(args.y, 16) && vectors_fit(args.q);
  const DecodeJob job = {
      .q = device_codes(args.q),
      .y = args.y.data,
      .stride = args.y.stride,
      .f32 = args.y.dtype == DType::f32,
      .domain = args.multiplier == Multiplier::block ? Domain::none : domain_of(args.q.spec),
      .range = 6.0f * static_cast<float>(args.q.spec.scale_max),
      .per_row = static_cast<uint32_t>((args.q.cols + 7) / 8),
      .vectors = fits};
  const uint32_t items = item_count("dequantize", args.q.rows * job.per_row);
  kernel_of(args.q.spec.format)<<<blocks(items, kThreads), kThreads, 0, stream_of(exec)>>>(job);
  check(cudaGetLastError(), "dequantize");
}

}  // namespace minite::cuda
