#pragma once
// Clocks of benchmarks: what a body takes, what memory gives, when other threads are quiet.
#include <atomic>
#include <functional>
#include <vector>

#include "core/memory.h"
#include "core/thread_pool.h"

namespace minite::cli {

/// A quantity over the rounds.
struct Spread {
  double median = 0, least = 0, most = 0;
};
[[nodiscard]] Spread spread(std::vector<double> values);

/// Seconds of one call of `body`: wall time, or with one thread the time that the calling thread was given,
/// so that a shared machine counts less.
[[nodiscard]] double seconds(const std::function<void()>& body, int threads);

/// One call of `body` by two clocks: what all threads of the process were given, and wall time.
struct Times {
  double cpu = 0, wall = 0;  ///< seconds
};
[[nodiscard]] Times times(const std::function<void()>& body);

/// Calls of `body` that fill a twentieth of a second, after one that warms up.
[[nodiscard]] int calls_for(const std::function<void()>& body, int threads);
/// `work` of one call a second, over `calls` calls.
[[nodiscard]] double rate(const std::function<void()>& body, int calls, double work, int threads);

/// Waits until no thread of this process runs: the threads of OpenBLAS and of OpenMP spin for a while after a
/// call and would take cores from what is timed next. False when they still run after two seconds.
[[nodiscard]] bool settle();

/// Memory that is read for its bandwidth: far larger than any cache.
class ReadProbe {
 public:
  explicit ReadProbe(ThreadPool& pool);
  /// GB/s of one pass by all threads.
  double operator()();

 private:
  ThreadPool& pool_;
  Buffer data_;
  std::atomic<uint64_t> sink_{0};
};

}  // namespace minite::cli
