// AdamW and the sum of squares (formulas: backends/ref/optimizer.h).
#include "backends/ref/optimizer.h"

#include "backends/simd/kernels.h"
#include "backends/simd/tasks.h"

namespace minite::simd::MINITE_ISA {
namespace {

template <class T>
MINITE_INLINE void adamw_piece(const AdamWArgs& args, const ref::BiasCorrection& bias, int64_t begin,
                               int64_t end) {
  float* master = args.master.as<float>() + begin;
  float* m = args.m.as<float>() + begin;
  float* v = args.v.as<float>() + begin;
  const float* grad = args.grad.as<const float>() + begin;
  T* weight = args.weight.as<T>() + begin;
  for_lanes(end - begin, [&](int64_t i, int64_t n) {
    const vf g = load_n(grad + i, n) * vf(args.grad_scale);
    const vf m1 = fma(vf(args.beta1), load_n(m + i, n), vf(1.0f - args.beta1) * g);
    const vf v1 = fma(vf(args.beta2), load_n(v + i, n), vf(1.0f - args.beta2) * g * g);
    const vf update = m1 / vf(bias.c1) / (sqrt(v1 / vf(bias.c2)) + vf(args.eps));
    const vf old = load_n(master + i, n);
    const vf now = fma(vf(-args.lr), fma(vf(args.weight_decay), old, update), old);
    store_n(m + i, m1, n);
    store_n(v + i, v1, n);
    store_n(master + i, now, n);
    store_n(weight + i, now, n);
  });
}

/// Sixteen FP64 lanes.
using Lanes64 [[gnu::vector_size(128)]] = double;
using Lanes32 [[gnu::vector_size(64)]] = float;

/// ref::sum_squares_chunk: the square of an FP32 value is exact in FP64, and zeros past the end add nothing.
double sum_squares_chunk(const float* x, int64_t n) {
  Lanes64 acc = {};
  for_lanes(n, [&](int64_t i, int64_t lanes) {
    alignas(64) Lanes32 value = {};
    if (lanes == kLanes) {
      std::memcpy(&value, x + i, sizeof(value));
    } else {
      std::memcpy(&value, x + i, static_cast<size_t>(lanes) * sizeof(float));
    }
    const Lanes64 wide = __builtin_convertvector(value, Lanes64);
    acc = acc + wide * wide;
  });
  double lane[kLanes];
  std::memcpy(lane, &acc, sizeof(lane));
  for (int half = kLanes / 2; half >= 1; half /= 2) {
    for (int j = 0; j < half; ++j) lane[j] = lane[j] + lane[j + half];
  }
  return lane[0];
}

}  // namespace

void adamw(const AdamWArgs& args, const Exec& exec) {
  const ref::BiasCorrection bias(args);
  with_type("adamw", args.weight.dtype, [&](auto tag) {
    for_pieces(exec, args.master.size(), kTaskElements,
               [&](int64_t begin, int64_t end) { adamw_piece<decltype(tag)>(args, bias, begin, end); });
  });
}

void sum_squares(const SumSquaresArgs& args, const Exec& exec) {
  const float* x = args.x.as<const float>();
  const int64_t chunks = ceil_div(args.x.size(), ref::kSumChunk);
  constexpr int64_t kBatch = 1024;  // chunks whose sums wait for their turn
  double sum = 0;
  for (int64_t first = 0; first < chunks; first += kBatch) {
    double part[kBatch];
    const int64_t count = min64(kBatch, chunks - first);
    for_pieces(exec, count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const int64_t at = (first + c) * ref::kSumChunk;
        part[c] = sum_squares_chunk(x + at, min64(ref::kSumChunk, args.x.size() - at));
      }
    });
    for (int64_t c = 0; c < count; ++c) sum += part[c];
  }
  *args.out = sum;
}

}  // namespace minite::simd::MINITE_ISA
