// NVFP4 along rows of BF16 with stochastic rounding.
#include "backends/cuda/quantize/rows_run.h"

namespace minite::cuda {

void quantize_rows_noisy(const QuantizeArgs& args, const Exec& exec) {
  run_rows<Encoder::noise>(quantize_job(args), args, Copy<true>{args.x.as<const bf16>(), args.x.stride},
                           exec);
}

}  // namespace minite::cuda
