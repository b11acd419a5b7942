#pragma once
// The ops: each validates its arguments once and calls the backend of the context. Nothing here allocates.
// Errors: invalid_argument with the op's name and the shapes.
#include "ops/context.h"
#include "ops/plan.h"

namespace minite::ops {

void quantize(const Context& ctx, const QuantizeArgs& args);
void quantize_both(const Context& ctx, const QuantizeBothArgs& args);
void dequantize(const Context& ctx, const DequantizeArgs& args);
void transpose_codes(const Context& ctx, const TransposeCodesArgs& args);
void prepack(const Context& ctx, const PrepackArgs& args);
/// Runs `plan` on `args`; the operands must have the formats and sizes that were planned.
void gemm(const Context& ctx, const GemmPlan& plan, const GemmArgs& args);

void norm(const Context& ctx, const NormArgs& args);
void norm_backward(const Context& ctx, const NormBackwardArgs& args);
void norm_quantize(const Context& ctx, const NormQuantizeArgs& args);
void rope(const Context& ctx, const RopeArgs& args);
void kv_write(const Context& ctx, const KvWriteArgs& args);
void attention(const Context& ctx, const AttentionArgs& args);
void attention_backward(const Context& ctx, const AttentionBackwardArgs& args);
void swiglu(const Context& ctx, const SwigluArgs& args);
void swiglu_backward(const Context& ctx, const SwigluBackwardArgs& args);
void swiglu_quantize(const Context& ctx, const SwigluQuantizeArgs& args);
void add_norm_quantize(const Context& ctx, const AddNormQuantizeArgs& args);
void add(const Context& ctx, const AddArgs& args);
void bias_backward(const Context& ctx, const BiasBackwardArgs& args);

/// What is wrong with the replayed experts of one token, "" for nothing: all -1, or different and in range.
[[nodiscard]] std::string replay_fault(std::span<const int32_t> slots, int64_t experts);
void route(const Context& ctx, const RouteArgs& args);
void route_backward(const Context& ctx, const RouteBackwardArgs& args);
double router_balance(const Context& ctx, const TensorView& prob, const Groups& groups);
void dispatch(const Context& ctx, const DispatchArgs& args);
void permute(const Context& ctx, const PermuteArgs& args);
void permute_quantize(const Context& ctx, const PermuteQuantizeArgs& args);
void combine(const Context& ctx, const CombineArgs& args);
void combine_backward(const Context& ctx, const CombineBackwardArgs& args);
void group_quantize(const Context& ctx, const GroupQuantizeArgs& args);
/// Runs `plan` once for each group that has rows: the same bits as one gemm() a group.
void group_gemm(const Context& ctx, const GemmPlan& plan, const GroupGemmArgs& args);
/// The same for weight gradients. `plan` was made for the largest K, the rows of the largest group at least.
void group_wgrad(const Context& ctx, const GemmPlan& plan, const GroupWgradArgs& args);
/// The same with bounds in the backend's memory and all weights as one operand; ops/grouped_args.h.
void grouped_gemm(const Context& ctx, const GroupedGemmArgs& args);
void grouped_wgrad(const Context& ctx, const GroupedWgradArgs& args);
void grouped_quantize(const Context& ctx, const GroupedQuantizeArgs& args);

void embedding(const Context& ctx, const EmbeddingArgs& args);
void embedding_backward(const Context& ctx, const EmbeddingBackwardArgs& args);
void logprob(const Context& ctx, const LogprobArgs& args);
void logprob_backward(const Context& ctx, const LogprobBackwardArgs& args);
void choose(const Context& ctx, const ChooseArgs& args);
void adamw(const Context& ctx, const AdamWArgs& args);
double sum_squares(const Context& ctx, const TensorView& x);

}  // namespace minite::ops
