#pragma once
// Device time of work that a stream runs: recorded into one CUDA graph, so that launches cost the host
// nothing, and replayed between two events.
#include <functional>
#include <memory>

namespace minite::cuda {

class Replay {
 public:
  /// Records body(i, stream) for i = 0 .. count-1. Throws what body throws, internal when it cannot be
  /// captured.
  Replay(const std::function<void(int i, void* stream)>& body, int count);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  /// Seconds of one body, over `times` replays.
  [[nodiscard]] double seconds(int times);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Copies `bytes` (a multiple of 16) within the device, by a kernel: the ceiling of what moves bytes.
void copy_kernel(void* to, const void* from, long bytes, void* stream);

}  // namespace minite::cuda
