// NVFP4 along rows of BF16 with the better of two block scales (4over6). Outer amaxes come from a pass
// before.
#include "backends/cuda/quantize/rows_run.h"

namespace minite::cuda {

void quantize_rows_searched(const QuantizeArgs& args, const Exec& exec) {
  const QuantizeJob job = quantize_job(args);
  const Copy<true> source = {args.x.as<const bf16>(), args.x.stride};
  if (job.search == ScaleSearch::four_six_mae) return run_given<Encoder::magnitudes>(job, args, source, exec);
  run_given<Encoder::squares>(job, args, source, exec);
}

}  // namespace minite::cuda
