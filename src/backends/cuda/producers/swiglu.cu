// SwiGLU and the permutation of rows with NVFP4 codes of their output, in one pass over BF16 rows.
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/sigmoid.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

struct Swiglu {
  const bf16* x;
  bf16* y;
  int64_t x_stride, y_stride, f;
  __device__ Words8 operator()(int64_t r, int64_t b) const {
    const bf16* at = x + r * x_stride + 16 * b;
    const Words8 g = load_words(at), u = load_words(at + f);
    Words8 v;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      v.w[i] = pack_bf16(swiglu_value(low(g.w[i]), low(u.w[i])), swiglu_value(high(g.w[i]), high(u.w[i])));
    store_words(y + r * y_stride + 16 * b, v);
    return v;
  }
};

struct Permute {
  const bf16* x;
  const int32_t* slot_of;
  bf16* y;
  int64_t k, x_stride, y_stride;
  __device__ Words8 operator()(int64_t r, int64_t b) const {
    const Words8 v = load_words(x + slot_of[r] / k * x_stride + 16 * b);
    store_words(y + r * y_stride + 16 * b, v);
    return v;
  }
};

bool codes_fit(const QTensor& out, const TensorView& y) {
  const QuantSpec& spec = out.spec;
  return spec.format == FormatId::nvfp4 && spec.blocks == BlockShape::row &&
         spec.search == ScaleSearch::amax && domain_of(spec) != Domain::tensor && y.dtype == DType::bf16 &&
         vectors_fit(y, 16) && vectors_fit(out) && out.scale_stride() <= kLongestRow;
}

template <class Source>
void run(const QTensor& out, const TensorView& y, const Source& source, const Exec& exec) {
  const QuantizeJob job = quantize_job({y, Orientation::rows, out});
  if (job.domain == Domain::row) return quantize_own_scale(job, source, exec);
  quantize_given_scale(job, source, exec);
}

}  // namespace

bool fused_swiglu_fits(const SwigluQuantizeArgs& args) {
  return codes_fit(args.out, args.act.y) && vectors_fit(args.act.x, 32);
}
void fused_swiglu(const SwigluQuantizeArgs& args, const Exec& exec) {
  const auto& [x, y] = args.act;
  run(args.out, y, Swiglu{x.as<const bf16>(), y.as<bf16>(), x.stride, y.stride, y.cols}, exec);
}

bool fused_permute_fits(const PermuteQuantizeArgs& args) {
  return codes_fit(args.out, args.permute.y) && vectors_fit(args.permute.x, 16);
}
void fused_permute(const PermuteQuantizeArgs& args, const Exec& exec) {
  const auto& [x, slot_of, y] = args.permute;
  run(args.out, y,
      Permute{x.as<const bf16>(), slot_of.data(), y.as<bf16>(), y.rows / x.rows, x.stride, y.stride}, exec);
}

}  // namespace minite::cuda
