#include "conformance/conformance.h"

#include <cstdlib>
#include <exception>
#include <memory>

#include "backends/recording.h"
#include "backends/ref/table.h"
#include "conformance/levels.h"
#include "core/fail.h"

namespace minite::conformance {
namespace {

constexpr uint64_t kSeed = 20240607;

/// Counts the ops that ended without an exception; refuses all after the first `limit`.
class Ops : public Trace {
 public:
  explicit Ops(int64_t limit) : limit_(limit) {}
  void begin(SpanKind, std::string_view, std::string, std::string_view) override {
    if (done_ == limit_) fail(ErrorCode::unsupported, "stopped by the test after {} ops", limit_);
  }
  void end() override { done_ += std::uncaught_exceptions() == 0 ? 1 : 0; }
  [[nodiscard]] int64_t done() const { return done_; }

 private:
  int64_t limit_, done_ = 0;
};

}  // namespace

void Level::SetUp() {
  const Candidate candidate = find_candidate(GetParam());
  if (candidate.table == nullptr) GTEST_SKIP() << candidate.reason;
  op_ = candidate.table;
  if (op_->memory != nullptr) slice_ = std::atoi(GetParam());
}

void Level::compare(const std::string& what, const Case& body, const Workspace& expected, ThreadPool& pool) {
  Workspace space(kSeed, allocate_for(*op_));
  Trial candidate{space, *op_, pool};
  body(candidate);
  ++compared_;
  const std::string difference = expected.difference(space);
  ASSERT_EQ(difference, "") << what << ", " << op_->name << ", " << pool.threads() << " threads";
}

std::string Level::run_device(const Case& body, Workspace& space, int64_t& ops) {
  static ThreadPool pool(1);
  Ops counted(-1);
  const Recording recording(*op_, counted);
  Trial candidate{space, recording.table(), pool};
  std::string refusal;
  try {
    body(candidate);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    refusal = error.what();
  }
  op_->memory->synchronize(nullptr);
  ops = counted.done();
  return refusal;
}

void Level::check_untouched(const std::string& what, const Case& body, const Workspace& space, int64_t ops) {
  static ThreadPool pool(1);
  Ops limited(ops);
  const Recording recording(ref::table(), limited);
  Workspace expected(kSeed);
  Trial stopped{expected, recording.table(), pool};
  try {
    body(stopped);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
  }
  ASSERT_EQ(expected.difference(space), "") << what << " was refused after " << ops << " ops";
}

void Level::check_device(const std::string& what, const Case& body) {
  if (cases_++ % kSlices != slice_) return;
  Workspace expected(kSeed);
  for (int run = 0; run < 2; ++run) {  // twice, for what a first run leaves behind
    Workspace space(kSeed, allocate_for(*op_));
    int64_t ops = 0;
    const std::string refusal = run_device(body, space, ops);
    if (HasFatalFailure()) return;
    if (!refusal.empty()) {
      ++refusals_[refusal];
      return check_untouched(what, body, space, ops);
    }
    if (run == 0) {
      static ThreadPool pool(1);
      Trial reference{expected, ref::table(), pool};
      body(reference);
    }
    ++compared_;
    ASSERT_EQ(expected.difference(space), "") << what << ", " << op_->name << ", run " << run;
  }
}

void Level::check(const std::string& what, const Case& body) {
  if (op_->memory != nullptr) return check_device(what, body);
  static std::array<std::unique_ptr<ThreadPool>, 3> pools = {
      std::make_unique<ThreadPool>(1), std::make_unique<ThreadPool>(2), std::make_unique<ThreadPool>(3)};
  Workspace expected(kSeed);
  Trial reference{expected, ref::table(), *pools[0]};
  body(reference);
  for (const std::unique_ptr<ThreadPool>& pool : pools) {
    compare(what, body, expected, *pool);
    if (HasFatalFailure()) return;
  }
}

}  // namespace minite::conformance
