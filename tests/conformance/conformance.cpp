#include "conformance/conformance.h"

#include <memory>

#include "backends/ref/table.h"
#include "backends/simd/isa_table.h"
#include "core/cpu.h"

namespace minite::conformance {

void Level::SetUp() {
  struct Row {
    SimdLevel level;
    const OpTable& (*table)();
  };
  static constexpr Row kRows[] = {{SimdLevel::avx2, simd::avx2::table},
                                  {SimdLevel::avxvnni, simd::avxvnni::table},
                                  {SimdLevel::avx512, simd::avx512::table},
                                  {SimdLevel::avx512vnni, simd::avx512vnni::table}};
  for (const Row& row : kRows) {
    if (to_string(row.level) != GetParam()) continue;
    if (!has_simd(cpu_info(), row.level)) GTEST_SKIP() << "this processor has no " << GetParam();
    op_ = &row.table();
    return;
  }
  FAIL() << "unknown level " << GetParam();
}

void Level::check(const std::string& what, const Case& body) const {
  static std::array<std::unique_ptr<ThreadPool>, 3> pools = {
      std::make_unique<ThreadPool>(1), std::make_unique<ThreadPool>(2), std::make_unique<ThreadPool>(3)};
  constexpr uint64_t kSeed = 20240607;
  Workspace expected(kSeed);
  Trial reference{expected, ref::table(), *pools[0]};
  body(reference);
  for (const auto& pool : pools) {
    Workspace space(kSeed);
    Trial candidate{space, *op_, *pool};
    body(candidate);
    const std::string difference = expected.difference(space);
    ASSERT_EQ(difference, "") << what << ", " << op_->name << ", " << pool->threads() << " threads";
  }
}

}  // namespace minite::conformance
