#include "timer.h"

#include <algorithm>
#include <stdexcept>

namespace minite::bench {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

Memory::~Memory() { clear(); }
void Memory::clear() {
  for (void* block : blocks_) cudaFree(block);
  blocks_.clear();
}
void* Memory::take(int64_t bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, static_cast<size_t>(bytes)), "cudaMalloc");
  blocks_.push_back(data);
  return data;
}

Replay::Replay(int launches, cudaStream_t stream, const std::function<void(int)>& launch)
    : launches_(launches), stream_(stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < launches; ++i) launch(i);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&graph_, graph, 0), "instantiate");
  cudaGraphDestroy(graph);
  check(cudaEventCreate(&begin_), "event");
  check(cudaEventCreate(&end_), "event");
}
Replay::~Replay() {
  cudaGraphExecDestroy(graph_);
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}
double Replay::time() const {
  check(cudaEventRecord(begin_, stream_), "record");
  check(cudaGraphLaunch(graph_, stream_), "replay");
  check(cudaEventRecord(end_, stream_), "record");
  check(cudaEventSynchronize(end_), "replay");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_, end_), "time");
  return static_cast<double>(milliseconds) * 1000.0 / launches_;
}

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

}  // namespace minite::bench
