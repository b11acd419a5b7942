#include "backends/cuda/common/launch.h"
#include "backends/cuda/timing.h"

namespace minite::cuda {
namespace {

constexpr int kThreads = 256;

/// 16 bytes a thread: the fastest of 1, 2, 4 and 8 of them in flight, with or without streaming hints.
__global__ void __launch_bounds__(kThreads) move_kernel(uint4* to, const uint4* from, long count) {
  const long i = long{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) to[i] = from[i];
}

}  // namespace

struct Replay::State {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  int count = 0;

  ~State() {
    if (ready != nullptr) cudaGraphExecDestroy(ready);
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (begin != nullptr) cudaEventDestroy(begin);
    if (end != nullptr) cudaEventDestroy(end);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
};

Replay::Replay(const std::function<void(int, void*)>& body, int count) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.count = count;
  check(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking), "stream");
  check(cudaEventCreate(&s.begin), "event");
  check(cudaEventCreate(&s.end), "event");
  body(0, s.stream);  // what is done once is done before the recording
  check(cudaStreamSynchronize(s.stream), "first call");
  check(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < count; ++i) body(i, s.stream);
  check(cudaStreamEndCapture(s.stream, &s.graph), "capture");
  check(cudaGraphInstantiate(&s.ready, s.graph, 0), "graph");
}
Replay::~Replay() = default;

double Replay::seconds(int times) {
  State& s = *state_;
  check(cudaEventRecord(s.begin, s.stream), "event");
  for (int i = 0; i < times; ++i) check(cudaGraphLaunch(s.ready, s.stream), "graph");
  check(cudaEventRecord(s.end, s.stream), "event");
  check(cudaEventSynchronize(s.end), "replay");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, s.begin, s.end), "event");
  return double{ms} * 1e-3 / s.count / times;
}

void copy_kernel(void* to, const void* from, long bytes, void* stream) {
  const long count = bytes / 16;
  move_kernel<<<blocks(static_cast<size_t>(count), kThreads), kThreads, 0,
                static_cast<cudaStream_t>(stream)>>>(static_cast<uint4*>(to), static_cast<const uint4*>(from),
                                                     count);
  check(cudaGetLastError(), "copy");
}

}  // namespace minite::cuda
