#include "conformance/conformance.h"

#include <memory>

#include "backends/ref/table.h"
#include "backends/simd/isa_table.h"
#include "core/cpu.h"

namespace minite::conformance {

void Level::SetUp() {
  const std::string level = GetParam();
  const SimdLevel need = level == "avx512" ? SimdLevel::avx512 : SimdLevel::avx2;
  if (best_simd(cpu_info()) < need) GTEST_SKIP() << "this processor has no " << level;
  op_ = need == SimdLevel::avx512 ? &simd::avx512::table() : &simd::avx2::table();
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
