// The CUDA backend's ops. An op without a kernel refuses by name; nothing falls back to the host.
#include "backends/cuda/cuda.h"
#include "backends/cuda/device.h"
#include "backends/cuda/error.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/memory.h"

namespace minite::cuda {
namespace {

// clang-format off
#define MINITE_REFUSE(op, Args) .op = [](const Args&, const Exec&) { refuse(#op, "no kernel yet; use ref or simd for it"); }

constexpr OpTable kTable = {
    .name = "cuda/sm_90",
    .memory = &kMemory,
    .supports_gemm = supports_gemm,
    .supports_quantize = supports_quantize,
    .gemm_scratch = gemm_scratch,
    .prepacked_bytes = prepacked_bytes,
    .grouped_scratch = grouped_scratch,
    .choose_scratch = [](int64_t, int) { return int64_t{0}; },
    .attention_scratch = [](int64_t, int64_t, int) { return int64_t{0}; },
    .gemm = gemm,
    .gemms = gemms,
    .grouped_gemm = grouped_gemm,
    .grouped_wgrad = grouped_wgrad,
    .grouped_quantize = grouped_quantize,
    .quantize = quantize,
    .quantize_both = quantize_both,
    .dequantize = dequantize,
    .transpose_codes = transpose_codes,
    .prepack = prepack,
    .norm = norm,
    MINITE_REFUSE(norm_backward, NormBackwardArgs),
    .norm_quantize = norm_quantize,
    MINITE_REFUSE(rope, RopeArgs),
    MINITE_REFUSE(kv_write, KvWriteArgs),
    MINITE_REFUSE(attention, AttentionArgs),
    MINITE_REFUSE(attention_backward, AttentionBackwardArgs),
    .swiglu = swiglu,
    MINITE_REFUSE(swiglu_backward, SwigluBackwardArgs),
    .swiglu_quantize = swiglu_quantize,
    .add_norm_quantize = add_norm_quantize,
    .add = add,
    MINITE_REFUSE(bias_backward, BiasBackwardArgs),
    MINITE_REFUSE(route, RouteArgs),
    MINITE_REFUSE(route_backward, RouteBackwardArgs),
    MINITE_REFUSE(router_balance, RouterBalanceArgs),
    MINITE_REFUSE(dispatch, DispatchArgs),
    .permute = permute,
    .permute_quantize = permute_quantize,
    MINITE_REFUSE(combine, CombineArgs),
    MINITE_REFUSE(combine_backward, CombineBackwardArgs),
    MINITE_REFUSE(embedding, EmbeddingArgs),
    MINITE_REFUSE(embedding_backward, EmbeddingBackwardArgs),
    MINITE_REFUSE(logprob, LogprobArgs),
    MINITE_REFUSE(logprob_backward, LogprobBackwardArgs),
    MINITE_REFUSE(choose, ChooseArgs),
    MINITE_REFUSE(adamw, AdamWArgs),
    MINITE_REFUSE(sum_squares, SumSquaresArgs),
};
#undef MINITE_REFUSE
// clang-format on

}  // namespace

Backend backend() {
  const std::string problem = hopper_problem(device());
  if (!problem.empty()) return {"cuda", nullptr, problem, &kTable};
  return {"cuda", &kTable, description(device()), &kTable};
}

}  // namespace minite::cuda
