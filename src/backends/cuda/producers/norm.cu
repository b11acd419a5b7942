// norm for any shape: half a warp owns a group of a row and reads it from memory for each pass.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/norm_lanes.h"
#include "backends/cuda/quantize/kernels.h"

namespace minite::cuda {
namespace {

constexpr unsigned kThreads = 128;

template <class T>
struct NormJob {
  const T *x, *weight, *bias;  // no bias: nullptr
  T* y;
  float *rstd, *mean;  // or nullptr
  int64_t x_stride, y_stride, rstd_stride, mean_stride, rows, groups;
  int d;
  float eps;
  NormKind kind;
  bool zero_centered;
};

// y may be x: a lane writes only elements that it alone has read.
template <class T>
__global__ void __launch_bounds__(kThreads) norm_kernel(NormJob<T> job) {
  const int64_t owner = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / 16;
  const int64_t r = owner / job.groups, g = owner % job.groups;
  const int lane = static_cast<int>(threadIdx.x % 16), d = r < job.rows ? job.d : 0;
  const T* x = job.x + r * job.x_stride + g * job.d;
  const auto read = [&](int i) { return static_cast<float>(x[i]); };
  const auto walk_of = [&](const auto& step) { return walk(read, d, lane, step); };
  const NormStats stats = norm_stats(walk_of, d, job.kind, job.eps);
  if (d == 0) return;
  T* y = job.y + r * job.y_stride + g * job.d;
  for (int i = lane; i < d; i += 16) {
    const float v = read(i), w = static_cast<float>(job.weight[i]);
    y[i] = static_cast<T>(job.bias == nullptr
                              ? normed(v, stats, w, job.zero_centered)
                              : normed(v, stats, w, job.zero_centered, static_cast<float>(job.bias[i])));
  }
  if (lane != 0) return;
  if (job.rstd != nullptr) job.rstd[r * job.rstd_stride + g] = stats.rstd;
  if (job.mean != nullptr) job.mean[r * job.mean_stride + g] = stats.mean;
}

template <class T>
void run(const NormArgs& args, const Exec& exec) {
  const NormJob<T> job = {.x = args.x.as<const T>(),
                          .weight = args.weight.as<const T>(),
                          .bias = args.bias.as<const T>(),
                          .y = args.y.as<T>(),
                          .rstd = args.rstd.as<float>(),
                          .mean = args.mean.as<float>(),
                          .x_stride = args.x.stride,
                          .y_stride = args.y.stride,
                          .rstd_stride = args.rstd.stride,
                          .mean_stride = args.mean.stride,
                          .rows = args.x.rows,
                          .groups = args.groups,
                          .d = static_cast<int>(args.x.cols / args.groups),
                          .eps = args.eps,
                          .kind = args.spec.kind,
                          .zero_centered = args.spec.gamma == Gamma::zero_centered};
  const uint32_t threads = item_count("norm", job.rows * job.groups * 16);
  norm_kernel<T><<<blocks(threads, kThreads), kThreads, 0, stream_of(exec)>>>(job);
}

}  // namespace

void norm_rows(const NormArgs& args, const Exec& exec) {
  if (args.x.size() == 0) return;
  if (args.x.dtype == DType::bf16) {
    run<bf16>(args, exec);
  } else if (args.x.dtype == DType::f32) {
    run<float>(args, exec);
  } else {
    refuse("norm", "tensors of f64 run on ref");
  }
  check(cudaGetLastError(), "norm");
}

}  // namespace minite::cuda
