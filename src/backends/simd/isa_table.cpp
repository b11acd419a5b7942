#include "backends/simd/isa_table.h"

#include "backends/ref/grouped.h"
#include "backends/ref/table.h"
#include "backends/simd/kernels.h"
#include "backends/simd/tasks.h"

#define MINITE_TEXT2(x) #x
#define MINITE_TEXT(x) MINITE_TEXT2(x)

namespace minite::simd::MINITE_ISA {

const OpTable& table() {
  static constexpr OpTable kTable = {
      .name = "simd/" MINITE_TEXT(MINITE_ISA),
      .supports_gemm = supports_gemm,
      .supports_quantize = supports_quantize,
      .gemm_scratch = gemm_scratch,
      .prepacked_bytes = [](const QuantSpec&, int64_t, int64_t) { return int64_t{0}; },
      .grouped_scratch = [](const GemmProblem& p, int64_t rows, int64_t,
                            int threads) { return gemm_scratch(p, rows, threads); },
      .choose_scratch = choose_scratch,
      .attention_scratch = attention_scratch,
      .gemm = gemm,
      .gemms = gemms,
      .grouped_gemm = [](const GroupedGemmArgs& args,
                         const Exec& exec) { ref::grouped_gemm(args, exec, gemm); },
      .grouped_wgrad =
          [](const GroupedWgradArgs& args, const Exec& exec) {
            for_tasks(exec, args.groups.count * args.a.cols, [&](int64_t line, int) {
              ref::grouped_wgrad_line(args, line / args.a.cols, line % args.a.cols);
            });
          },
      .grouped_quantize =
          [](const GroupedQuantizeArgs& args, const Exec& exec) {
            // Columns of whole blocks, longer than x has rows, are the reference's alone.
            const bool rows = args.along == Orientation::rows;
            ref::grouped_quantize(args, exec, rows ? quantize : ref::table().quantize);
          },
      .quantize = quantize,
      .quantize_both =
          [](const QuantizeBothArgs& args, const Exec& exec) {
            quantize(args.rows, exec);
            quantize(args.columns, exec);
          },
      .dequantize = dequantize,
      .transpose_codes = transpose_codes,
      .prepack = [](const PrepackArgs&, const Exec&) {},
      .norm = norm,
      .norm_backward = norm_backward,
      .norm_quantize = norm_quantize,
      .rope = rope,
      .kv_write = kv_write,
      .attention = attention,
      .attention_backward = attention_backward,
      .swiglu = swiglu,
      .swiglu_backward = swiglu_backward,
      .swiglu_quantize = swiglu_quantize,
      .add_norm_quantize = add_norm_quantize,
      .add = add,
      .bias_backward = bias_backward,
      .route = route,
      .route_backward = route_backward,
      .router_balance = router_balance,
      .dispatch = dispatch,
      .permute = permute,
      .permute_quantize = permute_quantize,
      .combine = combine,
      .combine_backward = combine_backward,
      .embedding = embedding,
      .embedding_backward = embedding_backward,
      .logprob = logprob,
      .logprob_backward = logprob_backward,
      .choose = choose,
      .adamw = adamw,
      .sum_squares = sum_squares,
  };
  return kTable;
}

}  // namespace minite::simd::MINITE_ISA
