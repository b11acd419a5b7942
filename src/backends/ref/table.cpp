#include "backends/ref/table.h"

#include "backends/ref/attention.h"
#include "backends/ref/choose.h"
#include "backends/ref/elementwise.h"
#include "backends/ref/gemm.h"
#include "backends/ref/grouped.h"
#include "backends/ref/logprob.h"
#include "backends/ref/norm.h"
#include "backends/ref/optimizer.h"
#include "backends/ref/permute.h"
#include "backends/ref/quantize.h"
#include "backends/ref/route.h"

namespace minite::ref {
namespace {

int64_t attention_scratch(int64_t, int64_t, int) { return 0; }

void run_choose(const ChooseArgs& args, const Exec& exec) {
  for (int64_t r = 0; r < args.logits.rows; ++r)
    choose_row(args, r, reinterpret_cast<int32_t*>(exec.scratch.data()));
}

/// The fused producers are defined by their unfused composition, one row at a time.
void norm_quantize(const NormQuantizeArgs& args, const Exec&) {
  with_type(args.norm.x.dtype, [&](auto tag) { norm<decltype(tag)>(args.norm); });
  quantize({args.norm.y, Orientation::rows, args.out, {}});
}
void swiglu_quantize(const SwigluQuantizeArgs& args, const Exec&) {
  with_type(args.act.x.dtype, [&](auto tag) { swiglu<decltype(tag)>(args.act); });
  quantize({args.act.y, Orientation::rows, args.out, {}});
}
void add_norm_quantize(const AddNormQuantizeArgs& args, const Exec& exec) {
  with_type(args.add.y.dtype, [&](auto tag) { add<decltype(tag)>(args.add); });
  norm_quantize({args.norm, args.out}, exec);
}
void permute_quantize(const PermuteQuantizeArgs& args, const Exec&) {
  with_type(args.permute.y.dtype, [&](auto tag) { permute<decltype(tag)>(args.permute); });
  quantize({args.permute.y, Orientation::rows, args.out, {}});
}

// clang-format off
#define MINITE_TYPED(op, Args, field) \
  [](const Args& args, const Exec&) { with_type(args.field.dtype, [&](auto tag) { op<decltype(tag)>(args); }); }
#define MINITE_STORED(op, Args) \
  [](const Args& args, const Exec&) { with_store(args.kv, [&](auto type, auto in_store) { op<decltype(type), decltype(in_store)>(args); }); }

constexpr OpTable kTable = {
    .name = "ref",
    .supports_gemm = supports_gemm,
    .supports_quantize = [](const QuantSpec&) { return Support{true, "ref_quantize", {}, true, {}}; },
    .gemm_scratch = gemm_scratch,
    .prepacked_bytes = [](const QuantSpec&, int64_t, int64_t) { return int64_t{0}; },
    .grouped_scratch = [](const GemmProblem&, int64_t, int64_t, int) { return int64_t{0}; },
    .choose_scratch = [](int64_t vocab, int) { return choose_scratch(vocab); },
    .attention_scratch = attention_scratch,
    .gemm = [](const GemmArgs& args, const Exec&) { gemm(args); },
    .gemms = [](std::span<const GemmArgs> products, const Exec&) { for (const GemmArgs& each : products) gemm(each); },
    .grouped_gemm = [](const GroupedGemmArgs& args, const Exec& exec) { grouped_gemm(args, exec, kTable.gemm); },
    .grouped_wgrad = [](const GroupedWgradArgs& args, const Exec&) { grouped_wgrad(args); },
    .grouped_quantize = [](const GroupedQuantizeArgs& args, const Exec& exec) { grouped_quantize(args, exec, kTable.quantize); },
    .quantize = [](const QuantizeArgs& args, const Exec&) { quantize(args); },
    .quantize_both = [](const QuantizeBothArgs& args, const Exec&) { quantize(args.rows); quantize(args.columns); },
    .dequantize = [](const DequantizeArgs& args, const Exec&) { dequantize(args); },
    .transpose_codes = [](const TransposeCodesArgs& args, const Exec&) { transpose_codes(args); },
    .prepack = [](const PrepackArgs&, const Exec&) {},
    .norm = MINITE_TYPED(norm, NormArgs, x),
    .norm_backward = MINITE_TYPED(norm_backward, NormBackwardArgs, x),
    .norm_quantize = norm_quantize,
    .rope = MINITE_TYPED(rope, RopeArgs, x),
    .kv_write = MINITE_STORED(kv_write, KvWriteArgs),
    .attention = MINITE_STORED(attention, AttentionArgs),
    .attention_backward = MINITE_STORED(attention_backward, AttentionBackwardArgs),
    .swiglu = MINITE_TYPED(swiglu, SwigluArgs, x),
    .swiglu_backward = MINITE_TYPED(swiglu_backward, SwigluBackwardArgs, x),
    .swiglu_quantize = swiglu_quantize,
    .add_norm_quantize = add_norm_quantize,
    .add = MINITE_TYPED(add, AddArgs, y),
    .bias_backward = MINITE_TYPED(bias_backward, BiasBackwardArgs, dy),
    .route = [](const RouteArgs& args, const Exec&) {
      if (args.logits.dtype == DType::f64) return route<double>(args);
      route<float>(args);
    },
    .route_backward = [](const RouteBackwardArgs& args, const Exec&) {
      if (args.prob.dtype == DType::f64) return route_backward<double>(args);
      route_backward<float>(args);
    },
    .router_balance = [](const RouterBalanceArgs& args, const Exec&) { router_balance(args); },
    .dispatch = [](const DispatchArgs& args, const Exec&) { dispatch(args); },
    .permute = MINITE_TYPED(permute, PermuteArgs, y),
    .permute_quantize = permute_quantize,
    .combine = MINITE_TYPED(combine, CombineArgs, y),
    .combine_backward = MINITE_TYPED(combine_backward, CombineBackwardArgs, dx),
    .embedding = MINITE_TYPED(embedding, EmbeddingArgs, y),
    .embedding_backward = MINITE_TYPED(embedding_backward, EmbeddingBackwardArgs, dy),
    .logprob = [](const LogprobArgs& args, const Exec&) {
      if (args.logits.dtype == DType::f64) return logprob<double>(args);
      logprob<float>(args);
    },
    .logprob_backward = MINITE_TYPED(logprob_backward, LogprobBackwardArgs, dlogits),
    .choose = run_choose,
    .adamw = [](const AdamWArgs& args, const Exec&) { adamw(args); },
    .sum_squares = [](const SumSquaresArgs& args, const Exec&) { sum_squares(args); },
};
#undef MINITE_TYPED
#undef MINITE_STORED
// clang-format on

}  // namespace

const OpTable& table() { return kTable; }

}  // namespace minite::ref
