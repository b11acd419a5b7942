#pragma once
// Device time of launches, in rounds with the copy that they are measured against.
#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <vector>

namespace minite::bench {

void check(cudaError_t error, const char* what);

/// Device memory of the benchmark's life.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] void* take(int64_t bytes);
  /// Frees everything.
  void clear();

 private:
  std::vector<void*> blocks_;
};

/// Work captured once as a CUDA graph of launches over rotating buffers.
class Replay {
 public:
  /// `launch(set)` for set 0, 1, .. `launches` - 1 in the stream's order.
  Replay(int launches, cudaStream_t stream, const std::function<void(int)>& launch);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  /// Microseconds a launch, one replay.
  [[nodiscard]] double time() const;

 private:
  int launches_;
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

struct Spread {
  double median, least, most;
};
[[nodiscard]] Spread spread(std::vector<double> values);

}  // namespace minite::bench
