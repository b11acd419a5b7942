// MXFP8 under te along rows of BF16: two lanes own a block of 32, 16 elements each. The processor's
// conversion rounds to nearest even, saturates, and turns every NaN into 0x7F, as te asks.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

template <class Codec>
__device__ uint32_t convert_pair(float lower, float upper);
template <>
__device__ uint32_t convert_pair<E4M3>(float lower, float upper) {
  uint16_t pair = 0;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(upper), "f"(lower));
  return pair;
}
template <>
__device__ uint32_t convert_pair<E5M2>(float lower, float upper) {
  uint16_t pair = 0;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(upper), "f"(lower));
  return pair;
}

/// Half a block of row r: the codes of 16 elements, and the block's scale by the even lane. All lanes of a
/// warp call it.
template <class Codec>
__device__ void finish_half(const QuantizeJob& job, int64_t r, int64_t half, bool inside, const Words8& x) {
  uint32_t most = inside ? widest(pair_max(x.w, 8)) : 0;
  most = max(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
  if (!inside) return;
  const uint8_t scale = E8M0::encode_round_up(__uint_as_float(most) * (1.0f / Codec::kMax));
  const float factor = E8M0::inverse(scale);
  uint32_t codes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t a = x.w[2 * i], b = x.w[2 * i + 1];
    codes[i] = convert_pair<Codec>(low(a) * factor, high(a) * factor) |
               convert_pair<Codec>(low(b) * factor, high(b) * factor) << 16;
  }
  *reinterpret_cast<uint4*>(job.out.codes + r * job.out.code_stride + 16 * half) = {codes[0], codes[1],
                                                                                    codes[2], codes[3]};
  if (half % 2 == 0) job.out.scales[r * job.out.scale_stride + half / 2] = scale;
}

template <class Codec>
__global__ void __launch_bounds__(kRowCta) mx_rows_kernel(QuantizeJob job) {
  constexpr int kHalves = 2;  // of a thread, in flight together
  const int64_t first = int64_t{blockIdx.x} * (kRowCta * kHalves) + threadIdx.x,
                count = 2 * job.out.scale_stride;
  for (int64_t r = blockIdx.y; r < job.out.rows; r += gridDim.y) {
    const bf16* from = static_cast<const bf16*>(job.x.x) + r * job.x.stride;
    Words8 x[kHalves] = {};
#pragma unroll
    for (int i = 0; i < kHalves; ++i) {
      if (first + i * kRowCta < count) x[i] = load_words(from + 16 * (first + i * kRowCta));
    }
#pragma unroll
    for (int i = 0; i < kHalves; ++i)
      finish_half<Codec>(job, r, first + i * kRowCta, first + i * kRowCta < count, x[i]);
  }
}

}  // namespace

bool mx_rows_fit(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  return (spec.format == FormatId::mxfp8 || spec.format == FormatId::mxfp8_e5m2) &&
         spec.convention == Convention::te && spec.blocks == BlockShape::row &&
         args.along == Orientation::rows && args.decoded.empty() && args.x.dtype == DType::bf16 &&
         vectors_fit(args.x, 32) && reinterpret_cast<uintptr_t>(args.out.codes) % 16 == 0 &&
         args.out.code_stride() % 16 == 0;
}

void mx_quantize_rows(const QuantizeArgs& args, const Exec& exec) {
  QuantizeJob job = quantize_job(args);
  if (args.x.stride == args.x.cols) {  // one long row
    job.out.scale_stride *= job.out.rows;
    job.out.rows = 1;
  }
  const auto kernel = args.out.spec.format == FormatId::mxfp8 ? mx_rows_kernel<E4M3> : mx_rows_kernel<E5M2>;
  kernel<<<row_grid(job.out.rows, 2 * job.out.scale_stride, 2), kRowCta, 0, stream_of(exec)>>>(job);
  check(cudaGetLastError(), "quantize rows");
}

}  // namespace minite::cuda
