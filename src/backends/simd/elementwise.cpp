// SwiGLU, addition, the gradient of a bias, embedding (formulas: backends/ref/elementwise.h).
#include "backends/simd/kernels.h"
#include "backends/simd/swiglu_row.h"
#include "backends/simd/tasks.h"

namespace minite::simd::MINITE_ISA {
namespace {

template <class T>
MINITE_INLINE void swiglu_backward_row(const T* dy, const T* x, int64_t f, T* dx) {
  for_lanes(f, [&](int64_t i, int64_t n) {
    const vf g = load_n(x + i, n), u = load_n(x + f + i, n), d = load_n(dy + i, n);
    const vf s = math::sigmoid(g);
    const vf a = g * s;
    store_n(dx + i, d * u * fma(a, vf(1.0f) - s, s), n);
    store_n(dx + f + i, d * a, n);
  });
}

}  // namespace

void swiglu(const SwigluArgs& args, const Exec& exec) {
  with_type("swiglu", args.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_rows(exec, args.y.rows, args.y.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) swiglu_row(args.x.row<const T>(r), args.y.cols, args.y.row<T>(r));
    });
  });
}

void swiglu_backward(const SwigluBackwardArgs& args, const Exec& exec) {
  with_type("swiglu_backward", args.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_rows(exec, args.dy.rows, args.dy.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        swiglu_backward_row(args.dy.row<const T>(r), args.x.row<const T>(r), args.dy.cols, args.dx.row<T>(r));
      }
    });
  });
}

void bias_backward(const BiasBackwardArgs& args, const Exec& exec) {
  with_type("bias_backward", args.dy.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_columns(exec, args.dy.rows, args.dy.cols, [&](int64_t begin, int64_t end) {
      float* out = args.dbias.as<float>() + begin;
      for (int64_t r = 0; r < args.dy.rows; ++r) {
        const T* dy = args.dy.row<const T>(r) + begin;
        for_lanes(end - begin,
                  [&](int64_t i, int64_t n) { store_n(out + i, load_n(out + i, n) + load_n(dy + i, n), n); });
      }
    });
  });
}

void add(const AddArgs& args, const Exec& exec) {
  with_type("add", args.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_rows(exec, args.y.rows, args.y.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* a = args.a.row<const T>(r);
        const T* b = args.b.row<const T>(r);
        T* y = args.y.row<T>(r);
        for_lanes(args.y.cols,
                  [&](int64_t i, int64_t n) { store_n(y + i, load_n(a + i, n) + load_n(b + i, n), n); });
      }
    });
  });
}

void embedding(const EmbeddingArgs& args, const Exec& exec) {
  with_type("embedding", args.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto bytes = static_cast<size_t>(args.y.cols) * sizeof(T);
    for_rows(exec, args.y.rows, args.y.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = args.table.row<const T>(args.token[static_cast<size_t>(r)]);
        std::memcpy(static_cast<void*>(args.y.row<T>(r)), from, bytes);
      }
    });
  });
}

void embedding_backward(const EmbeddingBackwardArgs& args, const Exec& exec) {
  with_type("embedding_backward", args.dy.dtype, [&](auto tag) {
    using T = decltype(tag);
    // Slices of columns keep the rows of one token in order.
    for_columns(exec, args.dy.rows, args.dy.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < args.dy.rows; ++r) {
        float* out = args.dtable.row<float>(args.token[static_cast<size_t>(r)]) + begin;
        const T* dy = args.dy.row<const T>(r) + begin;
        for_lanes(end - begin,
                  [&](int64_t i, int64_t n) { store_n(out + i, load_n(out + i, n) + load_n(dy + i, n), n); });
      }
    });
  });
}

}  // namespace minite::simd::MINITE_ISA
