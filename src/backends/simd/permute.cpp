// Rows to their experts and back (formulas: backends/ref/permute.h).
#include "backends/simd/kernels.h"
#include "backends/simd/tasks.h"

namespace minite::simd::MINITE_ISA {
namespace {

template <class T>
MINITE_INLINE void combine_row(const CombineArgs& args, int64_t k, int64_t t) {
  const int32_t* rows = args.row_of.data() + t * k;
  const float* w = args.weight.empty() ? nullptr : args.weight.row<const float>(t);
  T* y = args.y.row<T>(t);
  for_lanes(args.y.cols, [&](int64_t c, int64_t n) {
    vf acc;
    for (int64_t i = 0; i < k; ++i) {
      acc = fma(vf(w == nullptr ? 1.0f : w[i]), load_n(args.x.row<const T>(rows[i]) + c, n), acc);
    }
    store_n(y + c, acc, n);
  });
}

template <class T>
MINITE_INLINE void combine_backward_row(const CombineBackwardArgs& args, int64_t r) {
  const int64_t k = args.weight.cols, slot = args.slot_of[static_cast<size_t>(r)];
  const T* dy = args.dy.row<const T>(slot / k);
  const T* x = args.x.row<const T>(r);
  args.dweight.row<float>(slot / k)[slot % k] = lane_sum(args.x.cols, [&](vf acc, int64_t i, int64_t n) {
    return fma(load_n(dy + i, n), load_n(x + i, n), acc);
  });
  const vf w(args.weight.row<const float>(slot / k)[slot % k]);
  T* dx = args.dx.row<T>(r);
  for_lanes(args.x.cols, [&](int64_t i, int64_t n) { store_n(dx + i, w * load_n(dy + i, n), n); });
}

}  // namespace

void permute(const PermuteArgs& args, const Exec& exec) {
  with_type("permute", args.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    const int64_t k = args.y.rows / max64(args.x.rows, 1);
    const auto bytes = static_cast<size_t>(args.y.cols) * sizeof(T);
    for_rows(exec, args.y.rows, args.y.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = args.x.row<const T>(args.slot_of[static_cast<size_t>(r)] / k);
        std::memcpy(static_cast<void*>(args.y.row<T>(r)), from, bytes);
      }
    });
  });
}

void combine(const CombineArgs& args, const Exec& exec) {
  with_type("combine", args.y.dtype, [&](auto tag) {
    const int64_t k = args.x.rows / max64(args.y.rows, 1);
    for_rows(exec, args.y.rows, args.y.cols * max64(k, 1), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) combine_row<decltype(tag)>(args, k, t);
    });
  });
}

void combine_backward(const CombineBackwardArgs& args, const Exec& exec) {
  with_type("combine_backward", args.dx.dtype, [&](auto tag) {
    for_rows(exec, args.x.rows, args.x.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) combine_backward_row<decltype(tag)>(args, r);
    });
  });
}

}  // namespace minite::simd::MINITE_ISA
