#include "backends/simd/isa_table.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {

void set_products(OpTable& table) {
  table.supports_gemm = supports_gemm;
  table.gemm_scratch = gemm_scratch;
  table.gemm = gemm;
  table.gemms = gemms;
}

}  // namespace minite::simd::MINITE_ISA
