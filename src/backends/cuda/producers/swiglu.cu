// SwiGLU and the permutation of rows with NVFP4 codes of their output, in one pass over BF16 rows.
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/sigmoid.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

/// BF16 of 86, the end of sigmoid's short way.
constexpr uint32_t kShortWay = 0x42AC;

/// One element a half of each word.
template <class Sigmoid>
__device__ Words8 activate(const Words8& gate, const Words8& up, const Sigmoid& sigmoid_of) {
  Words8 y;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float a = low(gate.w[i]), b = high(gate.w[i]);
    y.w[i] = pack_bf16(a * sigmoid_of(a) * low(up.w[i]), b * sigmoid_of(b) * high(up.w[i]));
  }
  return y;
}

struct Swiglu {
  static constexpr bool kDecoded = false, kWarpRows = false;
  static constexpr int64_t kPairsUpTo = 2 * kTeamLimit;
  const bf16* x;
  bf16* y;
  int64_t x_stride, y_stride, f;
  __device__ Words8 operator()(int64_t r, int64_t b) const {
    const bf16* at = x + r * x_stride + 16 * b;
    const Words8 gate = load_words(at), up = load_words(at + f);
    const bool short_way = widest(pair_max(gate.w, 8)) <= kShortWay << 16;
    const Words8 v = short_way ? activate(gate, up, [](float g) { return sigmoid_in_range(g); })
                               : activate(gate, up, [](float g) { return math::sigmoid(g); });
    store_words(y + r * y_stride + 16 * b, v);
    return v;
  }
};

struct Permute {
  static constexpr bool kDecoded = false, kWarpRows = false;
  static constexpr int64_t kPairsUpTo = 2 * kTeamLimit;
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

bool fits(const TensorView& y, const QTensor* out) {
  if (y.dtype != DType::bf16 || y.size() == 0 || !vectors_fit(y, 16)) return false;
  return out == nullptr || (out->spec.format == FormatId::nvfp4 && out->spec.blocks == BlockShape::row &&
                            out->spec.search == ScaleSearch::amax && domain_of(out->spec) != Domain::tensor &&
                            vectors_fit(*out) && out->scale_stride() <= kLongestRow);
}

template <class Source>
void run(const TensorView& y, const QTensor* out, const Source& source, const Exec& exec) {
  if (out == nullptr) return produce(y.rows, y.cols / 16, source, exec);
  const QuantizeJob job = quantize_job({y, Orientation::rows, *out});
  if (job.domain == Domain::row) return quantize_own_scale(job, source, exec);
  quantize_given_scale(job, source, exec);
}

}  // namespace

bool fused_swiglu_fits(const SwigluArgs& args, const QTensor* out) {
  return fits(args.y, out) && vectors_fit(args.x, 32);
}
void fused_swiglu(const SwigluArgs& args, const QTensor* out, const Exec& exec) {
  const auto& [x, y] = args;
  run(y, out, Swiglu{x.as<const bf16>(), y.as<bf16>(), x.stride, y.stride, y.cols}, exec);
}

bool fused_permute_fits(const PermuteArgs& args, const QTensor* out) {
  return fits(args.y, out) && vectors_fit(args.x, 16);
}
void fused_permute(const PermuteArgs& args, const QTensor* out, const Exec& exec) {
  const auto& [x, slot_of, y] = args;
  run(y, out, Permute{x.as<const bf16>(), slot_of.data(), y.as<bf16>(), y.rows / x.rows, x.stride, y.stride},
      exec);
}

}  // namespace minite::cuda
