// SwiGLU, addition and the permutation of rows: one thread an element, any stride.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/sigmoid.h"
#include "backends/cuda/quantize/kernels.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 256;

/// The element of the output that a thread owns; r is past the last row for threads that own none.
struct Element {
  int64_t r, c;
};
__device__ Element element(uint32_t cols) {
  const uint32_t item = blockIdx.x * kThreads + threadIdx.x;
  return {item / cols, item % cols};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t rows, uint32_t cols) {
  const Element e = element(cols);
  if (e.r >= rows) return;
  const T* in = x + e.r * x_stride + e.c;
  const auto gate = static_cast<float>(in[0]), up = static_cast<float>(in[cols]);
  y[e.r * y_stride + e.c] = static_cast<T>(gate * sigmoid(gate) * up);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_kernel(const T* a, int64_t a_stride, const T* b, int64_t b_stride, T* y, int64_t y_stride,
               int64_t rows, uint32_t cols) {
  const Element e = element(cols);
  if (e.r >= rows) return;
  y[e.r * y_stride + e.c] = static_cast<T>(static_cast<float>(a[e.r * a_stride + e.c]) +
                                           static_cast<float>(b[e.r * b_stride + e.c]));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    permute_kernel(const T* x, int64_t x_stride, const int32_t* slot_of, int64_t k, T* y, int64_t y_stride,
                   int64_t rows, uint32_t cols) {
  const Element e = element(cols);
  if (e.r >= rows) return;
  y[e.r * y_stride + e.c] = x[slot_of[e.r] / k * x_stride + e.c];
}

uint32_t items(const char* op, const TensorView& y) { return item_count(op, y.size()); }

template <class T>
void run(const SwigluArgs& args, cudaStream_t stream) {
  swiglu_kernel<T><<<blocks(items("swiglu", args.y), kThreads), kThreads, 0, stream>>>(
      args.x.as<const T>(), args.x.stride, args.y.as<T>(), args.y.stride, args.y.rows,
      static_cast<uint32_t>(args.y.cols));
}
template <class T>
void run(const AddArgs& args, cudaStream_t stream) {
  add_kernel<T><<<blocks(items("add", args.y), kThreads), kThreads, 0, stream>>>(
      args.a.as<const T>(), args.a.stride, args.b.as<const T>(), args.b.stride, args.y.as<T>(), args.y.stride,
      args.y.rows, static_cast<uint32_t>(args.y.cols));
}
template <class T>
void run(const PermuteArgs& args, cudaStream_t stream) {
  permute_kernel<T><<<blocks(items("permute", args.y), kThreads), kThreads, 0, stream>>>(
      args.x.as<const T>(), args.x.stride, args.slot_of.data(), args.y.rows / args.x.rows, args.y.as<T>(),
      args.y.stride, args.y.rows, static_cast<uint32_t>(args.y.cols));
}

template <class Args>
void launch(const char* op, const Args& args, const Exec& exec) {
  if (args.y.size() == 0) return;
  if (args.y.dtype == DType::bf16) {
    run<bf16>(args, stream_of(exec));
  } else if (args.y.dtype == DType::f32) {
    run<float>(args, stream_of(exec));
  } else {
    refuse(op, "tensors of f64 run on ref");
  }
  check(cudaGetLastError(), op);
}

}  // namespace

void swiglu_elements(const SwigluArgs& args, const Exec& exec) { launch("swiglu", args, exec); }
void add_elements(const AddArgs& args, const Exec& exec) { launch("add", args, exec); }
void permute_rows(const PermuteArgs& args, const Exec& exec) { launch("permute", args, exec); }

}  // namespace minite::cuda
