#include "modules/product.h"

#include <deque>

#include "core/fail.h"

namespace minite {

/// Owns what the operands view.
struct LinearProduct::Held {
  std::deque<Buffer> memory;
  void* take(int64_t bytes) {
    memory.emplace_back(bytes);
    return memory.back().data();
  }
};

namespace {

const MatmulSpec& spec_of(const QLinearParams& params, LinearPass pass) {
  switch (pass) {
    case LinearPass::fprop:
      return params.fprop;
    case LinearPass::dgrad:
      return params.dgrad;
    case LinearPass::wgrad:
      return params.wgrad;
  }
  fail(ErrorCode::internal, "no such pass");
}

/// The dtype that a dense operand is read in.
DType dense_dtype(const QuantSpec& spec) { return format(spec.format).bits == 32 ? DType::f32 : DType::bf16; }

/// Copies `from` to `to`, element by element in to's dtype.
template <class To, class From>
void convert_to(const TensorView& from, const TensorView& to) {
  for (int64_t r = 0; r < from.rows; ++r) {
    for (int64_t c = 0; c < from.cols; ++c)
      to.row<To>(r)[c] = To(static_cast<float>(from.row<const From>(r)[c]));
  }
}
void convert(const TensorView& from, const TensorView& to) {
  const bool to_bf16 = to.dtype == DType::bf16, from_bf16 = from.dtype == DType::bf16;
  if (to_bf16) return from_bf16 ? convert_to<bf16, bf16>(from, to) : convert_to<bf16, float>(from, to);
  return from_bf16 ? convert_to<float, bf16>(from, to) : convert_to<float, float>(from, to);
}

}  // namespace

LinearProduct::LinearProduct(const QLinearParams& params, LinearPass pass, int64_t m, int64_t n, int64_t k,
                             const OpTable& table, const std::string& name, Epilogue epilogue)
    : pass_(pass), params_(params), spec_(spec_of(params, pass)), m_(m), n_(n), k_(k), name_(name) {
  params_.validate();
  const int64_t columns = pass == LinearPass::fprop ? n : k;
  const int64_t depth = pass == LinearPass::fprop   ? k
                        : pass == LinearPass::dgrad ? n
                                                    : spec_.a.stored_cols(m);
  plan_ = plan_gemm(table, {spec_.a.format, spec_.b.format, DType::f32, columns, depth, epilogue},
                    Policy{Policy::Kind::fastest, {}}, name);
}

Operand LinearProduct::quantized(const Context& ctx, Held& held, const TensorView& x, Orientation along,
                                 const QuantSpec& spec, const Noise& noise) const {
  const bool rows = along == Orientation::rows;
  const int64_t m = rows ? x.rows : x.cols, k = spec.stored_cols(rows ? x.cols : x.rows);
  const QTensor q = QTensor::place(spec, m, k, held.take(QTensor::bytes(spec, m, k)));
  ops::quantize(ctx, {x, along, q, noise});
  return Operand::of(q);
}

Operand LinearProduct::operand(const Context& ctx, Held& held, const TensorView& x, Orientation along,
                               const QuantSpec& spec, const Noise& noise) const {
  if (spec.quantized()) return quantized(ctx, held, x, along, spec, noise);
  const DType dtype = dense_dtype(spec);
  const TensorView dense(held.take(x.size() * dtype_size(dtype)), dtype, x.rows, x.cols);
  convert(x, dense);
  return Operand::of(dense, along);
}

TensorView LinearProduct::decoded(const Context& ctx, Held& held, const TensorView& x,
                                  const QuantSpec& forward) const {
  const Operand q = quantized(ctx, held, x, Orientation::rows, forward, {});
  const TensorView y(held.take(x.size() * dtype_size(DType::bf16)), DType::bf16, x.rows, x.cols);
  ops::dequantize(ctx, {q.q, y});
  return y;
}

void LinearProduct::run(ThreadPool& pool, const ProductTensors& in, uint64_t noise,
                        const TensorView& out) const {
  const Buffer scratch(plan_.scratch(out.rows, pool.threads()));
  const Context ctx{
      plan_.table, &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}, noise};
  const bool from_codes = spec_.source == OperandSource::dequantized;
  Held held;
  Operand a, b;
  switch (pass_) {
    case LinearPass::fprop:
      a = operand(ctx, held, in.x, Orientation::rows, spec_.a);
      b = operand(ctx, held, in.w, Orientation::rows, spec_.b);
      break;
    case LinearPass::dgrad: {
      const TensorView w = from_codes ? decoded(ctx, held, in.w, params_.fprop.b) : in.w;
      a = operand(ctx, held, in.dy, Orientation::rows, spec_.a,
                  linear_noise(name_, LinearPass::dgrad, noise));
      b = operand(ctx, held, w, Orientation::columns, spec_.b);
      break;
    }
    case LinearPass::wgrad: {
      const TensorView x = from_codes ? decoded(ctx, held, in.x, params_.fprop.a) : in.x;
      a = operand(ctx, held, in.dy, Orientation::columns, spec_.a,
                  linear_noise(name_, LinearPass::wgrad, noise));
      b = operand(ctx, held, x, Orientation::columns, spec_.b);
      break;
    }
  }
  ops::gemm(ctx, plan_, {a, b, {}, out, Output::overwrite, plan_.problem.epilogue});
}

}  // namespace minite
