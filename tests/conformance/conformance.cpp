#include "conformance/conformance.h"

#include <memory>

#include "backends/ref/table.h"
#include "conformance/levels.h"
#include "minite/error.h"

namespace minite::conformance {
namespace {
constexpr uint64_t kSeed = 20240607;
}

void Level::SetUp() {
  const Candidate candidate = find_candidate(GetParam());
  if (candidate.table == nullptr) GTEST_SKIP() << candidate.reason;
  op_ = candidate.table;
}

void Level::compare(const std::string& what, const Case& body, const Workspace& expected, ThreadPool& pool) {
  Workspace space(kSeed, allocate_for(*op_));
  Trial candidate{space, *op_, pool};
  try {
    body(candidate);
    if (op_->memory != nullptr) op_->memory->synchronize(nullptr);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    ++refusals_[error.what()];
    return;
  }
  ++compared_;
  const std::string difference = expected.difference(space);
  ASSERT_EQ(difference, "") << what << ", " << op_->name << ", " << pool.threads() << " threads";
}

void Level::check(const std::string& what, const Case& body) {
  static std::array<std::unique_ptr<ThreadPool>, 3> pools = {
      std::make_unique<ThreadPool>(1), std::make_unique<ThreadPool>(2), std::make_unique<ThreadPool>(3)};
  Workspace expected(kSeed);
  Trial reference{expected, ref::table(), *pools[0]};
  body(reference);
  // A device has no threads of ours; twice, for what a first run leaves behind.
  const size_t runs = op_->memory == nullptr ? 3 : 2;
  for (size_t i = 0; i < runs; ++i) {
    compare(what, body, expected, *pools[op_->memory == nullptr ? i : 0]);
    if (HasFatalFailure()) return;
  }
}

}  // namespace minite::conformance
