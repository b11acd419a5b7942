#include "backends/ref/grouped.h"
#include "backends/simd/isa_table.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {

void set_products(OpTable& table) {
  table.supports_gemm = supports_gemm;
  table.gemm_scratch = gemm_scratch;
  table.gemm = gemm;
  table.gemms = gemms;
  table.grouped_scratch = [](const GemmProblem& p, int64_t rows, int64_t, int threads) {
    return gemm_scratch(p, rows, threads);
  };
  table.grouped_gemm = [](const GroupedGemmArgs& args, const Exec& exec) {
    ref::grouped_gemm(args, exec, gemm);
  };
}

}  // namespace minite::simd::MINITE_ISA
