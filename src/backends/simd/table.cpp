#include "backends/simd/table.h"

#include "backends/simd/isa_table.h"
#include "core/cpu.h"
#include "core/env.h"

namespace minite::simd {
namespace {

OpTable with_products(const OpTable& base, std::string_view name, void (*set_products)(OpTable&)) {
  OpTable table = base;
  table.name = name;
  set_products(table);
  return table;
}

}  // namespace

const OpTable& avxvnni::table() {
  static const OpTable kTable = with_products(avx2::table(), "simd/avxvnni", set_products);
  return kTable;
}
const OpTable& avx512vnni::table() {
  static const OpTable kTable = with_products(avx512::table(), "simd/avx512vnni", set_products);
  return kTable;
}

Backend backend() {
  switch (choose_simd(cpu_info(), env_simd())) {
    case SimdLevel::avx512vnni:
      return {"simd", &avx512vnni::table(), {}, &avx512vnni::table()};
    case SimdLevel::avx512:
      return {"simd", &avx512::table(), {}, &avx512::table()};
    case SimdLevel::avxvnni:
      return {"simd", &avxvnni::table(), {}, &avxvnni::table()};
    case SimdLevel::avx2:
      return {"simd", &avx2::table(), {}, &avx2::table()};
    case SimdLevel::none:
      break;
  }
  return {"simd", nullptr, "this processor has no AVX2 with FMA; use ref", nullptr};
}

}  // namespace minite::simd
