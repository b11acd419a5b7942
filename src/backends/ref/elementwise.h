#pragma once
// SwiGLU, addition, the gradient of a bias, embedding.
//
//   s = sigmoid(g)   a = g * s   y = a * u
//   du = dy * a      dg = (dy * u) * fma(a, 1 - s, s)
#include "backends/ref/numeric.h"
#include "ops/args.h"

namespace minite::ref {

template <class T>
void swiglu(const SwigluArgs& args) {
  const int64_t f = args.y.cols;
  for (int64_t r = 0; r < args.y.rows; ++r) {
    const T* x = args.x.row<const T>(r);
    for (int64_t i = 0; i < f; ++i) {
      const auto g = load(x[i]), u = load(x[f + i]);
      args.y.row<T>(r)[i] = static_cast<T>(g * math::sigmoid(g) * u);
    }
  }
}

template <class T>
void swiglu_backward(const SwigluBackwardArgs& args) {
  using A = Acc<T>;
  const int64_t f = args.dy.cols;
  for (int64_t r = 0; r < args.dy.rows; ++r) {
    const T* x = args.x.row<const T>(r);
    T* dx = args.dx.row<T>(r);
    for (int64_t i = 0; i < f; ++i) {
      const A g = load(x[i]), u = load(x[f + i]), dy = load(args.dy.row<const T>(r)[i]);
      const A s = math::sigmoid(g);
      const A a = g * s;
      dx[i] = static_cast<T>(dy * u * math::fma(a, A(1) - s, s));
      dx[f + i] = static_cast<T>(dy * a);
    }
  }
}

template <class T>
void add(const AddArgs& args) {
  for (int64_t r = 0; r < args.y.rows; ++r) {
    for (int64_t i = 0; i < args.y.cols; ++i) {
      args.y.row<T>(r)[i] = static_cast<T>(load(args.a.row<const T>(r)[i]) + load(args.b.row<const T>(r)[i]));
    }
  }
}

template <class T>
void bias_backward(const BiasBackwardArgs& args) {
  Acc<T>* out = args.dbias.as<Acc<T>>();
  for (int64_t r = 0; r < args.dy.rows; ++r) {
    for (int64_t i = 0; i < args.dy.cols; ++i) out[i] = out[i] + load(args.dy.row<const T>(r)[i]);
  }
}

template <class T>
void embedding(const EmbeddingArgs& args) {
  for (int64_t r = 0; r < args.y.rows; ++r) {
    for (int64_t i = 0; i < args.y.cols; ++i) args.y.row<T>(r)[i] = args.table.row<const T>(args.token[r])[i];
  }
}

template <class T>
void embedding_backward(const EmbeddingBackwardArgs& args) {
  for (int64_t r = 0; r < args.dy.rows; ++r) {
    Acc<T>* out = args.dtable.row<Acc<T>>(args.token[r]);
    for (int64_t i = 0; i < args.dy.cols; ++i) out[i] = out[i] + load(args.dy.row<const T>(r)[i]);
  }
}

}  // namespace minite::ref
