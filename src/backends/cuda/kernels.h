#pragma once
// The entry points of the CUDA backend, one an op, launched on Exec::stream. Operands, scratch and index
// arrays lie in memory that the device reads; nothing here waits for it.
#include "backends/op_table.h"

namespace minite::cuda {

Support supports_quantize(const QuantSpec& spec);
void quantize(const QuantizeArgs&, const Exec&);
void quantize_both(const QuantizeBothArgs&, const Exec&);
void dequantize(const DequantizeArgs&, const Exec&);
void transpose_codes(const TransposeCodesArgs&, const Exec&);

Support supports_gemm(const GemmProblem& problem);
int64_t gemm_scratch(const GemmProblem& problem, int64_t m, int threads);
int64_t prepacked_bytes(const QuantSpec& spec, int64_t rows, int64_t cols);
void prepack(const PrepackArgs&, const Exec&);
void gemm(const GemmArgs&, const Exec&);
void gemms(std::span<const GemmArgs>, const Exec&);

int64_t grouped_scratch(const GemmProblem& problem, int64_t rows, int64_t groups, int threads);
void grouped_gemm(const GroupedGemmArgs&, const Exec&);
void grouped_wgrad(const GroupedWgradArgs&, const Exec&);
void grouped_quantize(const GroupedQuantizeArgs&, const Exec&);

void norm(const NormArgs&, const Exec&);
void swiglu(const SwigluArgs&, const Exec&);
void add(const AddArgs&, const Exec&);
void permute(const PermuteArgs&, const Exec&);
void norm_quantize(const NormQuantizeArgs&, const Exec&);
void swiglu_quantize(const SwigluQuantizeArgs&, const Exec&);
void add_norm_quantize(const AddNormQuantizeArgs&, const Exec&);
void permute_quantize(const PermuteQuantizeArgs&, const Exec&);

}  // namespace minite::cuda
