#pragma once
// check(case): runs a case on the reference and on a vector level with 1, 2 and 3 threads; all bytes agree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "backends/op_table.h"
#include "conformance/workspace.h"

namespace minite::conformance {

/// One run: where the arguments live and what runs them.
struct Trial {
  Workspace& space;
  const OpTable& op;
  ThreadPool& pool;
  std::vector<std::byte> memory{};

  /// Resources with `bytes` of poisoned scratch, 64-byte aligned.
  Exec exec(int64_t bytes = 0) {
    memory.assign(static_cast<size_t>(bytes) + 64, std::byte{0xFF});
    const auto skip = (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    return {&pool, std::span(memory).subspan(skip, static_cast<size_t>(bytes))};
  }
};
using Case = std::function<void(Trial&)>;

/// A suite that runs once for each vector level; it skips on processors that lack it.
class Level : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override;
  /// Expects the same bytes from the reference and the level.
  void check(const std::string& what, const Case& body) const;

 private:
  const OpTable* op_ = nullptr;
};

inline constexpr std::array<DType, 2> kStorage = {DType::bf16, DType::f32};

#define MINITE_LEVELS_OF(Suite, ...)                                  \
  INSTANTIATE_TEST_SUITE_P(Simd, Suite, testing::Values(__VA_ARGS__), \
                           [](const auto& level) { return std::string(level.param); })
#define MINITE_LEVELS(Suite) MINITE_LEVELS_OF(Suite, "avx2", "avx512")

}  // namespace minite::conformance
