// Which kernel computes a product, and its arguments.
#include "backends/cuda/common/gemm_exact.h"
#include "backends/cuda/common/operand.h"
#include "backends/cuda/kernels.h"

namespace minite::cuda {

Support supports_exact(const GemmProblem& p) {
  if (p.y == DType::f64) return {false, {}, {}, false, "FP64 runs on ref"};
  for (const FormatId id : {p.a, p.b}) {
    if (std::string problem = operand_problem(id, Convention::te); !problem.empty())
      return {false, {}, {}, false, std::move(problem)};
  }
  const bool by_block = p.a == FormatId::nvfp4 && p.b == FormatId::nvfp4;
  return {true,
          kExactKernel,
          by_block ? "canonical: one rounding a block of 16" : "canonical: fma, k ascending",
          true,
          {}};
}

Support supports_gemm(const GemmProblem& problem) { return supports_exact(problem); }
int64_t gemm_scratch(const GemmProblem&, int64_t, int) { return 0; }
void gemm(const GemmArgs& args, const Exec& exec) { gemm_exact(args, exec); }
void gemms(std::span<const GemmArgs> products, const Exec& exec) {
  for (const GemmArgs& each : products) gemm(each, exec);
}

}  // namespace minite::cuda
