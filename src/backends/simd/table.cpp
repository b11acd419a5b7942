#include "backends/simd/table.h"

#include "backends/simd/isa_table.h"
#include "core/cpu.h"
#include "core/env.h"

namespace minite::simd {

Backend backend() {
  switch (choose_simd(cpu_info(), env_simd())) {
    case SimdLevel::avx512:
      return {"simd", &avx512::table(), {}};
    case SimdLevel::avx2:
      return {"simd", &avx2::table(), {}};
    case SimdLevel::none:
      break;
  }
  return {"simd", nullptr, "this processor has no AVX2 with FMA; use ref"};
}

}  // namespace minite::simd
