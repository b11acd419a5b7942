// RMSNorm and LayerNorm, their gradients, and the norm that ends in codes (formulas: backends/ref/norm.h).
// The fused op always writes y as well: a row's codes are made from its y while that is in cache.
#include "backends/simd/kernels.h"
#include "backends/simd/norm_row.h"
#include "backends/simd/quantize_amax.h"

namespace minite::simd::MINITE_ISA {
namespace {

/// The mean of row r and group g; RMSNorm takes none out.
template <NormKind kKind>
MINITE_INLINE float mean_of(const NormBackwardArgs& args, int64_t r, int64_t g) {
  if constexpr (kKind == NormKind::layernorm) return args.mean.row<const float>(r)[g];
  return 0.0f;
}

/// Sums down the columns [c, c + count) of the weight, in registers' worth of columns.
constexpr int64_t kColumns = 4 * kLanes;

/// out[c + i] = step(out[c + i], r, g, i, n) for rows ascending, groups ascending.
template <class Step>
MINITE_INLINE void column_chains(const NormBackwardArgs& args, float* out, int64_t count, const Step& step) {
  alignas(64) float acc[kColumns];
  for_lanes(count, [&](int64_t i, int64_t n) { store(acc + i, load_n(out + i, n)); });
  for (int64_t r = 0; r < args.x.rows; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) {
      for_lanes(count, [&](int64_t i, int64_t n) { store(acc + i, step(load(acc + i), r, g, i, n)); });
    }
  }
  for_lanes(count, [&](int64_t i, int64_t n) { store_n(out + i, load(acc + i), n); });
}

/// dw and db of columns [begin, end) of the weight.
template <class T, NormKind kKind>
MINITE_INLINE void dweight_columns(const NormBackwardArgs& args, int64_t begin, int64_t end) {
  const int64_t d = args.x.cols / args.groups;
  for (int64_t c = begin; c < end; c += kColumns) {
    const int64_t count = min64(kColumns, end - c);
    const auto dy = [&](int64_t r, int64_t g, int64_t i, int64_t n) {
      return load_n(args.dy.row<const T>(r) + g * d + c + i, n);
    };
    column_chains(
        args, args.dweight.as<float>() + c, count, [&](vf acc, int64_t r, int64_t g, int64_t i, int64_t n) {
          const vf x = load_n(args.x.row<const T>(r) + g * d + c + i, n) - vf(mean_of<kKind>(args, r, g));
          return fma(dy(r, g, i, n), x * vf(args.rstd.row<const float>(r)[g]), acc);
        });
    if (args.dbias.empty()) continue;
    column_chains(args, args.dbias.as<float>() + c, count,
                  [&](vf acc, int64_t r, int64_t g, int64_t i, int64_t n) { return acc + dy(r, g, i, n); });
  }
}

template <class T, NormKind kKind>
MINITE_INLINE void dx_row(const NormBackwardArgs& args, int64_t r) {
  const int64_t d = args.x.cols / args.groups;
  const T* w = args.weight.as<const T>();
  for (int64_t g = 0; g < args.groups; ++g) {
    const T* x = args.x.row<const T>(r) + g * d;
    const T* dy = args.dy.row<const T>(r) + g * d;
    const T* residual = args.residual.empty() ? nullptr : args.residual.row<const T>(r) + g * d;
    T* dx = args.dx.row<T>(r) + g * d;
    const vf rstd(args.rstd.row<const float>(r)[g]), mean(mean_of<kKind>(args, r, g));
    const auto grad = [&](int64_t i, int64_t n) {
      return load_n(dy + i, n) * norm_weight(args.spec, w + i, n);
    };
    const auto xhat = [&](int64_t i, int64_t n) { return (load_n(x + i, n) - mean) * rstd; };
    const float sum =
        lane_sum(d, [&](vf acc, int64_t i, int64_t n) { return fma(grad(i, n), xhat(i, n), acc); });
    const vf c(sum / static_cast<float>(d));
    vf m;
    if constexpr (kKind == NormKind::layernorm) {
      m = vf(lane_sum(d, [&](vf acc, int64_t i, int64_t n) { return acc + grad(i, n); }) /
             static_cast<float>(d));
    }
    for_lanes(d, [&](int64_t i, int64_t n) {
      vf out = rstd * fma(vf(-1.0f) * xhat(i, n), c, grad(i, n) - m);
      if (residual != nullptr) out = out + load_n(residual + i, n);
      store_n(dx + i, out, n);
    });
  }
}

}  // namespace

void norm(const NormArgs& args, const Exec& exec) {
  with_type("norm", args.x.dtype, [&](auto tag) {
    with_kind(args.spec, [&](auto kind) {
      for_rows(exec, args.x.rows, args.x.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) norm_row<decltype(tag), kind.value>(args, r);
      });
    });
  });
}

void norm_backward(const NormBackwardArgs& args, const Exec& exec) {
  with_type("norm_backward", args.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_kind(args.spec, [&](auto kind) {
      // First: dx may be dy.
      for_columns(exec, args.x.rows * args.groups, args.x.cols / args.groups,
                  [&](int64_t begin, int64_t end) { dweight_columns<T, kind.value>(args, begin, end); });
      for_rows(exec, args.x.rows, args.x.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) dx_row<T, kind.value>(args, r);
      });
    });
  });
}

void norm_quantize(const NormQuantizeArgs& args, const Exec& exec) {
  if (!row_by_row(args.out)) {
    norm(args.norm, exec);
    return quantize({args.norm.y, Orientation::rows, args.out, {}}, exec);
  }
  with_type("norm_quantize", args.norm.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_kind(args.norm.spec, [&](auto kind) {
      for_rows(exec, args.norm.x.rows, args.norm.x.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          norm_row<T, kind.value>(args.norm, r);
          quantize_row<T>(args.norm.y, r, args.out);
        }
      });
    });
  });
}

}  // namespace minite::simd::MINITE_ISA
