#include "core/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "core/fail.h"

namespace minite {

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  try {
    for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(t); });
  } catch (const std::system_error& error) {
    stop();
    fail(ErrorCode::resource,
         "thread {} of {} could not be started ({}); use --threads with a smaller number",
         workers_.size() + 2, threads, error.code().message());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::drain(int thread) {
  for (int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;) {
    try {
      call_(body_, task, thread);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(tasks_, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    drain(thread);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

void ThreadPool::run(int64_t tasks, Call call, const void* body) {
  if (tasks <= 0) return;
  if (tasks == 1 || workers_.empty()) {
    for (int64_t task = 0; task < tasks; ++task) call(body, task, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    call_ = call;
    body_ = body;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    error_ = nullptr;
    busy_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  start_.notify_all();
  drain(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace minite
