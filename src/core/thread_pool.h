#pragma once
// A fixed set of threads that runs index ranges. Results never depend on the number of threads: tasks
// write disjoint outputs and no task's arithmetic depends on which thread runs it.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace minite {

class ThreadPool {
 public:
  /// `threads` >= 1 counts the calling thread; 0 means one a hardware thread. Throws resource when
  /// the system refuses a thread.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Runs body(task, thread) for task in [0, tasks), thread in [0, threads()); returns when all are done.
  /// The first exception of a task is thrown here. Calls must not nest.
  template <class Body>
  void parallel_for(int64_t tasks, const Body& body) {
    run(
        tasks, [](const void* b, int64_t task, int thread) { (*static_cast<const Body*>(b))(task, thread); },
        &body);
  }

 private:
  using Call = void (*)(const void* body, int64_t task, int thread);
  void run(int64_t tasks, Call call, const void* body);
  void work(int thread);
  void drain(int thread);
  void stop();  ///< ends and joins the workers

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  uint64_t generation_ = 0;
  int busy_ = 0;
  bool stopping_ = false;

  Call call_ = nullptr;
  const void* body_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
  std::exception_ptr error_;
};

}  // namespace minite
