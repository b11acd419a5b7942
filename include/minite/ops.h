#pragma once
// Quantize, decode and multiply: the numerics of the engine for programs that bring their own memory.
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "minite/convention.h"
#include "minite/format.h"
#include "minite/tensor.h"

namespace minite {

/// Where ops run: a backend and its threads. Not thread-safe; results do not depend on the thread count.
class Runtime {
 public:
  /// `backend` is "auto", "simd" or "ref"; `threads` 0 means one a hardware thread. Throws not_found for an
  /// unknown name, unsupported when the backend cannot run here.
  explicit Runtime(std::string_view backend = "auto", int threads = 0);
  ~Runtime();
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;

  /// Name of the chosen backend, "simd/avx512".
  [[nodiscard]] std::string_view backend() const;

  struct State;
  [[nodiscard]] State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// out = Q(x) along the rows of x. `x` is [M,K] bf16 or f32, out.spec says how, out is [M,K]
/// (QTensor::place). NVFP4 follows Transformer Engine's reference byte for byte (docs/numerics.md).
void quantize(Runtime& runtime, const TensorView& x, const QTensor& out);

/// out = Q(x^T): x is [M,K], out is [K,M], blocks run along M. Not the transpose of quantize(x).
void quantize_transposed(Runtime& runtime, const TensorView& x, const QTensor& out);

/// y = D(q) in the convention's decode order, rounded once to y's dtype (bf16 or f32). y is [rows, cols].
void dequantize(Runtime& runtime, const QTensor& q, const TensorView& y);

/// y[M,N] = a[M,K] b[N,K]^T in the canonical order; outer scales act in the epilogue
/// fl(fl(acc * s_row) * s_col), one rounding to y's dtype (bf16 or f32). y must not overlap the operands.
void qgemm(Runtime& runtime, const QTensor& a, const QTensor& b, const TensorView& y);
/// The same with another epilogue; `te` needs two NVFP4 operands with outer scales.
void qgemm(Runtime& runtime, const QTensor& a, const QTensor& b, const TensorView& y, Epilogue epilogue);
/// The same with a dense left operand (W4A16): a is [M,K] bf16 or f32.
void qgemm(Runtime& runtime, const TensorView& a, const QTensor& b, const TensorView& y);
/// The same with two dense operands.
void qgemm(Runtime& runtime, const TensorView& a, const TensorView& b, const TensorView& y);

/// Groups of consecutive rows: group g owns rows [offset[g], offset[g+1]) of the packed x [R,K]; offset
/// starts at 0, ascends and ends at R. out[g] = Q(those rows) along the rows; that of an empty group is not
/// touched.
void group_quantize(Runtime& runtime, const TensorView& x, std::span<const int32_t> offset,
                    std::span<const QTensor> out);
/// The same into one packed tensor [R,K], whose outer scales must not span groups: by row, or none.
void group_quantize(Runtime& runtime, const TensorView& x, std::span<const int32_t> offset,
                    const QTensor& out);
/// Rows of group g of y[R,N] = rows of group g of a[R,K] times b[g][N,K]^T: the bits of one qgemm a group.
/// All of b share one format. An empty group costs nothing.
void group_qgemm(Runtime& runtime, const QTensor& a, std::span<const int32_t> offset,
                 std::span<const QTensor> b, const TensorView& y);
/// The same with a dense left operand, bf16 or f32.
void group_qgemm(Runtime& runtime, const TensorView& a, std::span<const int32_t> offset,
                 std::span<const QTensor> b, const TensorView& y);

/// Both with the weights packed in one tensor: rows [g N, (g+1) N) of b [E*N,K] are b[g]. An outer scale of
/// the tensor serves all groups; one an expert needs the list.
void group_qgemm(Runtime& runtime, const QTensor& a, std::span<const int32_t> offset, const QTensor& b,
                 const TensorView& y);
void group_qgemm(Runtime& runtime, const TensorView& a, std::span<const int32_t> offset, const QTensor& b,
                 const TensorView& y);

/// The kernel that quantizes and decodes `spec`, "simd/avx512 quantize_lanes: nvfp4[te,outer=row]": in
/// vectors (lanes), or the reference's rows spread over the threads. Throws invalid_argument for a
/// contradictory spec.
[[nodiscard]] std::string describe_quantize(Runtime& runtime, const QuantSpec& spec);

/// The kernel and accumulation order that qgemm(a, b) uses for N x K weights, in words.
[[nodiscard]] std::string describe_qgemm(Runtime& runtime, FormatId a, FormatId b, DType y, int64_t n,
                                         int64_t k);

}  // namespace minite
