#include <fmt/format.h>

#include "backends/simd/isa_table.h"
#include "conformance/levels.h"
#include "core/cpu.h"
#include "core/fail.h"

namespace minite::conformance {

Candidate find_candidate(std::string_view level) {
  struct Row {
    SimdLevel level;
    const OpTable& (*table)();
  };
  static constexpr Row kRows[] = {{SimdLevel::avx2, simd::avx2::table},
                                  {SimdLevel::avxvnni, simd::avxvnni::table},
                                  {SimdLevel::avx512, simd::avx512::table},
                                  {SimdLevel::avx512vnni, simd::avx512vnni::table}};
  for (const Row& row : kRows) {
    if (to_string(row.level) != level) continue;
    if (!has_simd(cpu_info(), row.level)) return {nullptr, fmt::format("this processor has no {}", level)};
    return {&row.table(), {}};
  }
  fail(ErrorCode::not_found, "unknown level {}", level);
}

Allocate allocate_for(const OpTable&) { return host_bytes; }

}  // namespace minite::conformance
