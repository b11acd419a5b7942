#pragma once
// NVFP4 along rows of BF16 by one encoder. For .cu files only.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/amax.h"
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {

template <bool kWithDecoded>
struct Copy {
  static constexpr bool kDecoded = kWithDecoded, kWarpRows = true;
  static constexpr int64_t kPairsUpTo =
      256;  // measured: loads of 8192 columns and more keep memory busier by fours
  const bf16* x;
  int64_t stride;
  __device__ Words8 operator()(int64_t r, int64_t b) const { return load_words(x + r * stride + 16 * b); }
};

/// The amax of a whole x whose rows lie side by side.
void flat_amax(const QuantizeJob& job, int64_t elements, const Exec& exec);

/// Outer amaxes in a pass before, where rows do not keep their own.
inline void amaxes_before(const QuantizeJob& job, const TensorView& x, const Exec& exec) {
  if (job.domain == Domain::tensor && x.stride == x.cols) return flat_amax(job, x.size(), exec);
  matrix_amaxes({x.as<const bf16>(), x.stride, x.rows, x.cols}, &job, nullptr, exec);
}
template <Encoder kEncoder, class Source>
void run_given(QuantizeJob job, const QuantizeArgs& args, const Source& source, const Exec& exec) {
  amaxes_before(job, args.x, exec);
  const bool flat =
      args.x.stride == args.x.cols && (args.decoded.empty() || args.decoded.stride == args.decoded.cols);
  if (flat && job.domain != Domain::row) {  // one long row
    job.out.scale_stride *= job.out.rows;
    job.out.rows = 1;
  }
  quantize_given_scale<kEncoder>(job, source, exec);
}
template <Encoder kEncoder, class Source>
void run_rows(const QuantizeJob& job, const QuantizeArgs& args, const Source& source, const Exec& exec) {
  if (job.domain == Domain::row && job.out.scale_stride <= kLongestRow)
    return quantize_own_scale<kEncoder>(job, source, exec);
  run_given<kEncoder>(job, args, source, exec);
}

/// With stochastic rounding; with the better of two scales.
void quantize_rows_noisy(const QuantizeArgs& args, const Exec& exec);
void quantize_rows_searched(const QuantizeArgs& args, const Exec& exec);

}  // namespace minite::cuda
