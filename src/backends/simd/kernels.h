#pragma once
// The entry points of this instruction set, one an op; same basenames as the reference.
#include "backends/op_table.h"

namespace minite::simd::MINITE_ISA {

Support supports_gemm(const GemmProblem& problem);
Support supports_quantize(const QuantSpec& spec);
int64_t gemm_scratch(const GemmProblem& problem, int64_t m, int threads);
int64_t choose_scratch(int64_t vocab, int threads);
int64_t attention_scratch(int64_t max_keys, int64_t head_dim, int threads);

void gemm(const GemmArgs&, const Exec&);
void gemms(std::span<const GemmArgs>, const Exec&);
void quantize(const QuantizeArgs&, const Exec&);
void dequantize(const DequantizeArgs&, const Exec&);
void transpose_codes(const TransposeCodesArgs&, const Exec&);
void norm(const NormArgs&, const Exec&);
void norm_backward(const NormBackwardArgs&, const Exec&);
void norm_quantize(const NormQuantizeArgs&, const Exec&);
void rope(const RopeArgs&, const Exec&);
void kv_write(const KvWriteArgs&, const Exec&);
void attention(const AttentionArgs&, const Exec&);
void attention_backward(const AttentionBackwardArgs&, const Exec&);
void swiglu(const SwigluArgs&, const Exec&);
void swiglu_backward(const SwigluBackwardArgs&, const Exec&);
void swiglu_quantize(const SwigluQuantizeArgs&, const Exec&);
void add_norm_quantize(const AddNormQuantizeArgs&, const Exec&);
void add(const AddArgs&, const Exec&);
void bias_backward(const BiasBackwardArgs&, const Exec&);
void route(const RouteArgs&, const Exec&);
void route_backward(const RouteBackwardArgs&, const Exec&);
void router_balance(const RouterBalanceArgs&, const Exec&);
void dispatch(const DispatchArgs&, const Exec&);
void permute(const PermuteArgs&, const Exec&);
void permute_quantize(const PermuteQuantizeArgs&, const Exec&);
void combine(const CombineArgs&, const Exec&);
void combine_backward(const CombineBackwardArgs&, const Exec&);
void embedding(const EmbeddingArgs&, const Exec&);
void embedding_backward(const EmbeddingBackwardArgs&, const Exec&);
void logprob(const LogprobArgs&, const Exec&);
void logprob_backward(const LogprobBackwardArgs&, const Exec&);
void choose(const ChooseArgs&, const Exec&);
void adamw(const AdamWArgs&, const Exec&);
void sum_squares(const SumSquaresArgs&, const Exec&);

}  // namespace minite::simd::MINITE_ISA
