#include "backends/ref/gemm.h"

#include "backends/ref/numeric.h"
#include "backends/ref/quantize.h"

namespace minite::ref {
namespace {

template <class A>
A element(const Operand& x, int64_t r, int64_t k) {
  if (x.quantized()) return static_cast<A>(decode_element(x.q, r, k));
  const bool rows = x.along == Orientation::rows;
  const int64_t i = rows ? r : k;
  const int64_t j = rows ? k : r;
  switch (x.dense.dtype) {
    case DType::bf16:
      return static_cast<A>(static_cast<float>(x.dense.row<const bf16>(i)[j]));
    case DType::f32:
      return static_cast<A>(x.dense.row<const float>(i)[j]);
    default:
      return static_cast<A>(x.dense.row<const double>(i)[j]);
  }
}

/// Chain of fma over ascending k.
template <class A>
A dot_chain(const Operand& a, int64_t m, const Operand& b, int64_t n) {
  A acc = 0;
  for (int64_t k = 0; k < a.depth(); ++k) acc = math::fma(element<A>(a, m, k), element<A>(b, n, k), acc);
  return acc;
}

/// One rounding a block of 16. Products of decoded codes are multiples of d_a*d_b/4 and a block's sum has at
/// most 12 + 8 bits, so the inner chain is exact.
float dot_nvfp4(const QTensor& a, int64_t m, const QTensor& b, int64_t n) {
  float acc = 0;
  for (int64_t begin = 0; begin < a.cols; begin += 16) {
    float block = 0;
    for (int64_t k = begin; k < std::min(begin + 16, a.cols); ++k) {
      block = math::fma(decode_element(a, m, k), decode_element(b, n, k), block);
    }
    acc = acc + block;
  }
  return acc;
}

template <class T>
void store(const GemmArgs& args, int64_t m, int64_t n, Acc<T> acc) {
  using A = Acc<T>;
  A y = acc;
  if (args.epilogue == Epilogue::te) {
    y = y * static_cast<A>(te_alpha(args.a.q, m, args.b.q, n));
  } else {
    if (args.a.quantized() && args.a.q.outer != nullptr) y = y * static_cast<A>(args.a.q.outer_of(m));
    if (args.b.quantized() && args.b.q.outer != nullptr) y = y * static_cast<A>(args.b.q.outer_of(n));
  }
  if (!args.bias.empty()) y = y + args.bias.as<const A>()[n];
  T* out = args.y.row<T>(m) + n;
  if (args.output == Output::accumulate) y = y + load(*out);
  *out = static_cast<T>(y);
}

template <class T>
void gemm_typed(const GemmArgs& args) {
  const bool by_block = args.a.format() == FormatId::nvfp4 && args.b.format() == FormatId::nvfp4;
  for (int64_t m = 0; m < args.y.rows; ++m) {
    for (int64_t n = 0; n < args.y.cols; ++n) {
      const Acc<T> acc = by_block ? static_cast<Acc<T>>(dot_nvfp4(args.a.q, m, args.b.q, n))
                                  : dot_chain<Acc<T>>(args.a, m, args.b, n);
      store<T>(args, m, n, acc);
    }
  }
}

}  // namespace

Support supports_gemm(const GemmProblem& problem) {
  const bool by_block = problem.a == FormatId::nvfp4 && problem.b == FormatId::nvfp4;
  return {true,
          by_block ? "ref_nvfp4_block_dot" : "ref_fma_chain",
          by_block ? "canonical: one rounding a block of 16" : "canonical: fma, k ascending",
          true,
          {}};
}

int64_t gemm_scratch(const GemmProblem&, int64_t, int) { return 0; }

void gemm(const GemmArgs& args) {
  with_type(args.y.dtype, [&](auto tag) { gemm_typed<decltype(tag)>(args); });
}

}  // namespace minite::ref
