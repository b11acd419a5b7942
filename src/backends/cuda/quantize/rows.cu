// NVFP4 along rows of BF16, nearest, blocks of a row: the fast path of quantize.
#include "backends/cuda/quantize/kernels.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

struct Copy {
  const bf16* x;
  int64_t stride;
  __device__ Words8 operator()(int64_t r, int64_t b) const { return load_words(x + r * stride + 16 * b); }
};

}  // namespace

bool rows_fit(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  return spec.format == FormatId::nvfp4 && spec.blocks == BlockShape::row &&
         spec.search == ScaleSearch::amax && spec.rounding == Rounding::nearest &&
         args.along == Orientation::rows && args.x.dtype == DType::bf16 && vectors_fit(args.x, 16) &&
         vectors_fit(args.out) && (args.decoded.empty() || vectors_fit(args.decoded, 16));
}

void quantize_rows(const QuantizeArgs& args, const Exec& exec) {
  QuantizeJob job = quantize_job(args);
  const Copy source{args.x.as<const bf16>(), args.x.stride};
  if (job.domain == Domain::row && job.out.scale_stride <= kLongestRow)
    return quantize_own_scale(job, source, exec);
  nvfp4_amax(job, exec);
  const bool flat =
      args.x.stride == args.x.cols && (args.decoded.empty() || args.decoded.stride == args.decoded.cols);
  if (flat && job.domain != Domain::row) {  // one long row
    job.out.scale_stride *= job.out.rows;
    job.out.rows = 1;
  }
  quantize_given_scale(job, source, exec);
}

}  // namespace minite::cuda
