// dequantize: a thread owns eight columns of a row. With block scales alone the products are exact, so the
// processor's BF16 multiplication gives them; with outer scales the order is the convention's, in FP32.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/common/packed.h"
#include "backends/cuda/quantize/kernels.h"
#include "formats/codecs.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 128;
enum class Kind : uint8_t { nvfp4, mxfp4, e4m3, e5m2 };

struct DecodeJob {
  DeviceCodes q;
  void* y;
  int64_t stride;
  bool f32;
  Domain domain;  ///< none when the block scale alone multiplies
  float range;
  uint32_t per_row;  ///< eights of a row
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

constexpr int kEights = 2;  ///< of a thread of the fast kernel, kThreads apart, in flight together

/// NVFP4 to BF16 where codes by 4 bytes and y by 16 fit. Blocks of threads walk a row; rows side by side in
/// memory come as one.
template <bool kOuter>
__global__ void __launch_bounds__(kThreads) decode_eights_kernel(DecodeJob job) {
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kEights) + threadIdx.x;
  for (int64_t r = blockIdx.y; r < job.q.rows; r += gridDim.y) {
    const auto* codes = reinterpret_cast<const uint32_t*>(job.q.codes + r * job.q.code_stride);
    const uint8_t* scales = job.q.scales + r * job.q.scale_stride;
    auto* y = reinterpret_cast<uint4*>(static_cast<bf16*>(job.y) + r * job.stride);
    uint32_t eight[kEights], scale[kEights];
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int64_t at = first + i * kThreads;
      if (at < job.per_row) eight[i] = codes[at];
      if (at < job.per_row) scale[i] = scales[at / 2];
    }
    const float amax = kOuter ? job.q.amax[job.domain == Domain::row ? r : 0] : 1.0f;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int64_t at = first + i * kThreads;
      if (at >= job.per_row) break;
      const float block = e4m3_value(scale[i]);
      const float d = kOuter ? block * amax * (1.0f / job.range) : block;
      uint32_t v[4];
      decode_e2m1(eight[i], v);
      const uint32_t both = pack_bf16(d, d);
#pragma unroll
      for (int p = 0; p < 4; ++p)
        v[p] = kOuter ? pack_bf16(low(v[p]) * d, high(v[p]) * d) : multiply_bf16(v[p], both);
      y[at] = {v[0], v[1], v[2], v[3]};
    }
  }
}

template <Kind kKind>
__global__ void __launch_bounds__(kThreads) decode_kernel(DecodeJob job) {
  const uint32_t item = blockIdx.x * kThreads + threadIdx.x;
  const int64_t r = item / job.per_row, c = item % job.per_row * 8;
  if (r >= job.q.rows) return;
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

namespace {

void launch_eights(DecodeJob job, const Exec& exec) {
  const bool flat = job.domain != Domain::row && job.stride == job.q.cols;
  if (flat) {
    job.per_row *= static_cast<uint32_t>(job.q.rows);
    job.q.rows = 1;
  }
  const dim3 grid(blocks(job.per_row, kThreads * kEights),
                  static_cast<unsigned>(job.q.rows < 65535 ? job.q.rows : 65535));
  const auto kernel = job.domain == Domain::none ? decode_eights_kernel<false> : decode_eights_kernel<true>;
  kernel<<<grid, kThreads, 0, stream_of(exec)>>>(job);
}

}  // namespace

void decode(const DequantizeArgs& args, const Exec& exec) {
  const bool fits = args.q.spec.format == FormatId::nvfp4 && args.y.dtype == DType::bf16 &&
                    vectors_fit(args.y, 16) && vectors_fit(args.q);
  const DecodeJob job = {
      .q = device_codes(args.q),
      .y = args.y.data,
      .stride = args.y.stride,
      .f32 = args.y.dtype == DType::f32,
      .domain = args.multiplier == Multiplier::block ? Domain::none : domain_of(args.q.spec),
      .range = 6.0f * static_cast<float>(args.q.spec.scale_max),
      .per_row = static_cast<uint32_t>((args.q.cols + 7) / 8)};
  const uint32_t items = item_count("dequantize", args.q.rows * job.per_row);
  if (fits) {
    launch_eights(job, exec);
  } else {
    kernel_of(args.q.spec.format)<<<blocks(items, kThreads), kThreads, 0, stream_of(exec)>>>(job);
  }
  check(cudaGetLastError(), "dequantize");
}

}  // namespace minite::cuda
