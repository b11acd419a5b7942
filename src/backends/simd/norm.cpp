// RMSNorm, its gradient, and the norm that ends in codes (formulas: backends/ref/norm.h). The fused op always
// writes y as well: a row's codes are made from its y while that is in cache.
#include "backends/simd/kernels.h"
#include "backends/simd/norm_row.h"
#include "backends/simd/quantize_amax.h"

namespace minite::simd::MINITE_ISA {
namespace {

/// dw of columns [begin, end) of the weight: rows ascending, groups ascending.
template <class T>
MINITE_INLINE void dweight_columns(const RmsNormBackwardArgs& args, int64_t begin, int64_t end) {
  const int64_t d = args.x.cols / args.groups;
  float* dw = args.dweight.as<float>();
  constexpr int64_t kColumns = 4 * kLanes;
  for (int64_t c = begin; c < end; c += kColumns) {
    const int64_t count = min64(kColumns, end - c);
    alignas(64) float acc[kColumns];
    for_lanes(count, [&](int64_t i, int64_t n) { store(acc + i, load_n(dw + c + i, n)); });
    for (int64_t r = 0; r < args.x.rows; ++r) {
      const float* rstd = args.rstd.row<const float>(r);
      for (int64_t g = 0; g < args.groups; ++g) {
        const T* x = args.x.row<const T>(r) + g * d + c;
        const T* dy = args.dy.row<const T>(r) + g * d + c;
        for_lanes(count, [&](int64_t i, int64_t n) {
          store(acc + i, fma(load_n(dy + i, n), load_n(x + i, n) * vf(rstd[g]), load(acc + i)));
        });
      }
    }
    for_lanes(count, [&](int64_t i, int64_t n) { store_n(dw + c + i, load(acc + i), n); });
  }
}

template <class T>
MINITE_INLINE void dx_row(const RmsNormBackwardArgs& args, int64_t r) {
  const int64_t d = args.x.cols / args.groups;
  const T* w = args.weight.as<const T>();
  for (int64_t g = 0; g < args.groups; ++g) {
    const T* x = args.x.row<const T>(r) + g * d;
    const T* dy = args.dy.row<const T>(r) + g * d;
    const T* residual = args.residual.empty() ? nullptr : args.residual.row<const T>(r) + g * d;
    T* dx = args.dx.row<T>(r) + g * d;
    const vf rstd(args.rstd.row<const float>(r)[g]);
    const float sum = lane_sum(d, [&](vf acc, int64_t i, int64_t n) {
      return fma(load_n(dy + i, n) * load_n(w + i, n), load_n(x + i, n) * rstd, acc);
    });
    const vf c(sum / static_cast<float>(d));
    for_lanes(d, [&](int64_t i, int64_t n) {
      const vf xhat = load_n(x + i, n) * rstd;
      vf grad = rstd * fma(vf(-1.0f) * xhat, c, load_n(dy + i, n) * load_n(w + i, n));
      if (residual != nullptr) grad = grad + load_n(residual + i, n);
      store_n(dx + i, grad, n);
    });
  }
}

}  // namespace

void rmsnorm(const RmsNormArgs& args, const Exec& exec) {
  with_type("rmsnorm", args.x.dtype, [&](auto tag) {
    for_rows(exec, args.x.rows, args.x.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) rmsnorm_row<decltype(tag)>(args, r);
    });
  });
}

void rmsnorm_backward(const RmsNormBackwardArgs& args, const Exec& exec) {
  with_type("rmsnorm_backward", args.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    // First: dx may be dy.
    for_columns(exec, args.x.rows * args.groups, args.x.cols / args.groups,
                [&](int64_t begin, int64_t end) { dweight_columns<T>(args, begin, end); });
    for_rows(exec, args.x.rows, args.x.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) dx_row<T>(args, r);
    });
  });
}

void rmsnorm_quantize(const RmsNormQuantizeArgs& args, const Exec& exec) {
  with_type("rmsnorm_quantize", args.norm.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    if (!row_by_row(args.out)) {
      rmsnorm(args.norm, exec);
      return quantize({args.norm.y, Orientation::rows, args.out, {}}, exec);
    }
    for_rows(exec, args.norm.x.rows, args.norm.x.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        rmsnorm_row<T>(args.norm, r);
        quantize_row<T>(args.norm.y, r, args.out);
      }
    });
  });
}

}  // namespace minite::simd::MINITE_ISA
