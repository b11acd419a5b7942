#pragma once
// check(case): runs a case on the reference and on a vector level with 1, 2 and 3 threads, or on a device
// twice; all bytes agree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "backends/op_table.h"
#include "conformance/workspace.h"

namespace minite::conformance {

/// One run: where the arguments live and what runs them.
struct Trial {
  Workspace& space;
  const OpTable& op;
  ThreadPool& pool;

  /// Resources with `bytes` of poisoned scratch, 64-byte aligned.
  Exec exec(int64_t bytes = 0) { return {&pool, space.scratch(bytes), nullptr}; }
};
using Case = std::function<void(Trial&)>;

/// Parts of a suite on a device: each takes every kSlices-th case, so that shards share the work of the
/// reference.
inline constexpr int64_t kSlices = 16;

/// A suite that runs once for each vector level, or on a device; it skips on machines that lack it.
class Level : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override;
  /// Expects the same bytes from the reference and the level. A refusal (unsupported) counts as such and must
  /// have touched nothing.
  void check(const std::string& what, const Case& body);
  /// What was refused, and why, by sentence.
  [[nodiscard]] const std::map<std::string, int64_t>& refusals() const { return refusals_; }
  [[nodiscard]] int64_t compared() const { return compared_; }

 private:
  void compare(const std::string& what, const Case& body, const Workspace& expected, ThreadPool& pool);
  void check_device(const std::string& what, const Case& body);
  /// Runs on the device; what it refused, "" when it ran, with the number of ops that ran before.
  std::string run_device(const Case& body, Workspace& space, int64_t& ops);
  /// Expects `space` to be what the first `ops` ops alone leave behind.
  void check_untouched(const std::string& what, const Case& body, const Workspace& space, int64_t ops);

  const OpTable* op_ = nullptr;
  int64_t slice_ = 0, cases_ = 0;
  std::map<std::string, int64_t> refusals_;
  int64_t compared_ = 0;
};

inline constexpr std::array<DType, 2> kStorage = {DType::bf16, DType::f32};

// The same cases are compiled twice: for the vector levels, and with MINITE_ON_DEVICE for a device.
#ifdef MINITE_ON_DEVICE
#define MINITE_LEVELS_OF(Suite, ...)                                                                         \
  INSTANTIATE_TEST_SUITE_P(                                                                                  \
      Cuda, Suite,                                                                                           \
      testing::Values("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"), \
      [](const auto& level) { return "slice" + std::string(level.param); })
#else
#define MINITE_LEVELS_OF(Suite, ...)                                  \
  INSTANTIATE_TEST_SUITE_P(Simd, Suite, testing::Values(__VA_ARGS__), \
                           [](const auto& level) { return std::string(level.param); })
#endif
#define MINITE_LEVELS(Suite) MINITE_LEVELS_OF(Suite, "avx2", "avx512")

}  // namespace minite::conformance
