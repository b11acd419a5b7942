#pragma once
// Arguments of every op: plain structs of views. Shapes and aliasing are stated here and checked once, in
// the op of the same name (ops/*.cpp); backends rely on them. T rows are tokens, V the vocabulary.
#include <cstdint>
#include <span>

#include "minite/convention.h"
#include "minite/format.h"
#include "minite/kv_format.h"
#include "minite/tensor.h"

namespace minite {

// --- packed batches --------------------------------------------------------------------------------

/// Identity of each row of a packed batch. Rows of one sequence are contiguous with ascending positions.
struct Rows {
  std::span<const int32_t> token;  ///< [T] input token
  std::span<const int32_t> seq;    ///< [T] sequence slot, an index into KvStore::first_block
  std::span<const int32_t> pos;    ///< [T] position inside the sequence
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(token.size()); }
};

/// Keys in a block of attention; blocks start at absolute positions 0, 64, ...
inline constexpr int64_t kKeyBlock = 64;

/// Keys and values of one layer, in the format that attention reads. A sequence owns consecutive blocks
/// of 64 positions from first_block[seq]. In a block, for each KV head: K transposed [head_dim, 64], then
/// V [64, head_dim]: scores run over keys in lanes, the PV product over head_dim in lanes. Elements are of
/// `dtype`, or codes (e4m3) when the format is scaled.
struct KvStore {
  void* data = nullptr;
  DType dtype = DType::bf16;  ///< of the tensors that ops exchange with the store
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  std::span<const int64_t> first_block;
  KvFormat format = KvFormat::bf16;
  KvScale scale{};  ///< of keys and of values; 1 unless the format is scaled

  [[nodiscard]] int64_t head_elements() const { return 2 * kKeyBlock * head_dim; }
  [[nodiscard]] int64_t block_elements() const { return kv_heads * head_elements(); }
  template <class T>
  [[nodiscard]] T* k(int64_t block, int64_t head) const {
    return static_cast<T*>(data) + block * block_elements() + head * head_elements();
  }
  template <class T>
  [[nodiscard]] T* v(int64_t block, int64_t head) const {
    return k<T>(block, head) + kKeyBlock * head_dim;
  }
};

// --- quantization ----------------------------------------------------------------------------------

/// Which way a matrix is read: as it is, or transposed.
enum class Orientation : uint8_t { rows, columns };

/// Random bits of stochastic rounding: block b of output row r draws Philox(seed, r * scale_stride + b,
/// stream), one byte an element. `stream` tells tensors of one seed apart.
struct Noise {
  uint64_t seed = 0, stream = 0;
};

/// out = Q(x) along the rows of x ([M,K] -> [M,K]) or along its columns ([M,K] -> [K,M]). With a rotation, M
/// is rounded up to 16 in `out` and x must be read by columns.
struct QuantizeArgs {
  TensorView x;  ///< [M, K] bf16 or f32
  Orientation along = Orientation::rows;
  QTensor out;       ///< out.spec says how
  Noise noise = {};  ///< for Rounding::stochastic
  /// f16: an FP32 x was widened from F16, which conventions with statistics in the weight's dtype follow.
  DType stored = DType::f32;
  /// [out.rows, out.cols] bf16 or absent: what `out` decodes to without its outer scale, as
  /// Multiplier::block gives it. Tensor cores multiply these values.
  TensorView decoded = {};
};

/// One x along its rows and along its columns, from one look at it where a backend can: the bytes of two
/// calls. `rows` and `columns` name the same x.
struct QuantizeBothArgs {
  QuantizeArgs rows, columns;
};

/// Which scales a decoded code is multiplied with.
enum class Multiplier : uint8_t {
  all,    ///< block scale and outer scale, in the convention's order
  block,  ///< the block scale alone: exact in BF16 for NVFP4 and MXFP4, and for MXFP8 above BF16's subnormals
};

/// y = D(q), decoded in the convention's order and rounded once to y's dtype.
struct DequantizeArgs {
  QTensor q;
  TensorView y;  ///< [q.rows, q.cols] bf16 or f32
  Multiplier multiplier = Multiplier::all;
};

/// out = q^T, codes, block scales and outer scales: the bytes of quantizing the source along the other way,
/// with no look at it. The specs are equal and transposable().
struct TransposeCodesArgs {
  QTensor q;    ///< [R, C]
  QTensor out;  ///< [C, R], no overlap with q
};

/// Codes and block scales of a weight in the order that the backend's products read them, once an update of
/// the weights. Outer scales stay where they are.
struct PrepackArgs {
  QTensor q;                 ///< [N, K]
  std::span<std::byte> out;  ///< OpTable::prepacked_bytes() of them, from a 16-byte boundary
};

// --- matrix products -------------------------------------------------------------------------------

/// One operand of a product, read as [R, K] with the contracted dimension K last.
struct Operand {
  QTensor q;         ///< a quantized operand [R, K], or
  TensorView dense;  ///< a dense one: [R, K] (Orientation::rows) or [K, R] (columns)
  Orientation along = Orientation::rows;
  /// What q decodes to without its outer scale, [R, K] bf16, or absent. A backend may read it in place of
  /// q's codes; the values are the same, so are the bits of the product.
  TensorView decoded = {};
  /// What prepack made of q, or nullptr. A backend may read it in place of q's codes and block scales.
  const std::byte* prepacked = nullptr;

  static Operand of(const QTensor& t) { return {t, {}, Orientation::rows}; }
  static Operand of(const TensorView& t, Orientation o = Orientation::rows) { return {{}, t, o}; }
  [[nodiscard]] bool quantized() const { return !q.empty(); }
  [[nodiscard]] int64_t rows() const {
    return quantized() ? q.rows : along == Orientation::rows ? dense.rows : dense.cols;
  }
  [[nodiscard]] int64_t depth() const {
    return quantized() ? q.cols : along == Orientation::rows ? dense.cols : dense.rows;
  }
  [[nodiscard]] FormatId format() const {
    return quantized() ? q.spec.format : dense.dtype == DType::bf16 ? FormatId::bf16 : FormatId::fp32;
  }
};

/// In which order a product adds.
enum class SumOrder : uint8_t {
  backend,    ///< the backend's own: the plan says which. On a CPU it is the canonical one
  canonical,  ///< that of docs/numerics.md: the bits of the reference on every backend
};

/// What a product does with its previous output.
enum class Output : uint8_t { overwrite, accumulate };

/// y[M,N] = epilogue(a[M,K] b[N,K]^T): acc, times a's outer scale of the row, times b's outer scale of the
/// column (or as `epilogue` says), plus bias, plus y when accumulating; one rounding to y's dtype.
struct GemmArgs {
  Operand a, b;
  TensorView bias;  ///< [1, N] f32 (f64 for a f64 y) or absent
  TensorView y;     ///< [M, N]; must not overlap the operands
  Output output = Output::overwrite;
  Epilogue epilogue = Epilogue::minite;  ///< te: both operands are NVFP4 with outer amaxes, y is bf16 or f32
  SumOrder order = SumOrder::backend;
};

// --- norm, rope, attention -------------------------------------------------------------------------

/// What a norm takes out of a row: the root mean square alone, or the mean and the standard deviation.
enum class NormKind : uint8_t { rmsnorm, layernorm };
/// What a norm's weight holds: the factor, or the factor - 1 (Transformer Engine's zero_centered_gamma).
enum class Gamma : uint8_t { plain, zero_centered };
struct NormSpec {
  NormKind kind = NormKind::rmsnorm;
  Gamma gamma = Gamma::plain;
};

/// y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight (+ bias), over `groups` equal pieces of each row
/// (heads for QK-norm). RMSNorm has no mean (0 in the formula) and no bias.
struct NormArgs {
  TensorView x;       ///< [T, groups*D]
  TensorView weight;  ///< [1, D], dtype of x
  float eps = 0;
  int64_t groups = 1;
  TensorView y;     ///< [T, groups*D]; may be x
  TensorView rstd;  ///< [T, groups] accumulator dtype (f32; f64 for f64), or absent
  NormSpec spec{};
  TensorView bias{};  ///< [1, D], dtype of x, or absent
  TensorView mean{};  ///< as rstd
};
struct NormBackwardArgs {
  TensorView dy, x, weight, rstd;
  int64_t groups = 1;
  TensorView residual;  ///< [T, groups*D] or absent: gradient added to dx before its rounding
  TensorView dx;        ///< [T, groups*D]; may be dy or residual
  TensorView dweight;   ///< [1, D] f32 (f64), accumulated: rows ascending, groups ascending
  NormSpec spec{};
  TensorView mean{};   ///< as the forward pass gave it; LayerNorm only
  TensorView dbias{};  ///< as dweight; absent without a bias
};

/// Rotates pairs (i, i + D/2) of each head in place by the angle of the row's position.
enum class Direction : uint8_t { forward, backward };
struct RopeArgs {
  TensorView x;      ///< [T, heads*D], in place
  TensorView table;  ///< [positions, D] f32: D/2 cosines, then D/2 sines
  std::span<const int32_t> pos;
  int64_t heads = 0;
  Direction direction = Direction::forward;
};

/// Writes the keys and values of each row to its place in the store, rounding to the store's format.
struct KvWriteArgs {
  TensorView k, v;  ///< [T, kv_heads*D]
  std::span<const int32_t> seq, pos;
  KvStore kv;
};

/// Causal grouped-query attention: each row attends to positions 0..pos of its own sequence.
struct AttentionArgs {
  TensorView q;  ///< [T, heads*D], scaled by 1/sqrt(D) inside
  std::span<const int32_t> seq, pos;
  KvStore kv;
  int64_t heads = 0;
  TensorView o;    ///< [T, heads*D]
  TensorView lse;  ///< [T, heads] accumulator dtype, or absent: log-sum-exp of the scaled scores
};
/// Needs every position of every sequence in the batch, each sequence from position 0. dk and dv are the
/// gradients of the rounded keys and values: rounding to the store's format is straight through.
struct AttentionBackwardArgs {
  TensorView dout, q, o, lse;
  std::span<const int32_t> seq, pos;
  KvStore kv;
  int64_t heads = 0;
  TensorView dq;      ///< [T, heads*D]
  TensorView dk, dv;  ///< [T, kv_heads*D]
};

// --- elementwise -----------------------------------------------------------------------------------

/// y[T,F] = silu(gate) * up for x = [gate; up] of 2F columns.
struct SwigluArgs {
  TensorView x, y;
};
struct SwigluBackwardArgs {
  TensorView dy, x, dx;  ///< [T,F], [T,2F], [T,2F]; dx may be x
};
/// y = a + b, rounded once. y may be a or b.
struct AddArgs {
  TensorView a, b, y;
};
/// dbias[n] += dy[m, n], rows ascending: the gradient of a product's bias.
struct BiasBackwardArgs {
  TensorView dy;     ///< [T, N]
  TensorView dbias;  ///< [1, N] f32 (f64), accumulated
};
/// Fused producers: the op's output goes straight to codes while a row is in cache. `y` is always written.
struct NormQuantizeArgs {
  NormArgs norm;
  QTensor out;
};
struct SwigluQuantizeArgs {
  SwigluArgs act;
  QTensor out;
};
/// y = a + b rounded once, then its norm, then the codes: add.y is norm.x.
struct AddNormQuantizeArgs {
  AddArgs add;
  NormArgs norm;
  QTensor out;
};

// --- embedding and head ----------------------------------------------------------------------------

struct EmbeddingArgs {
  std::span<const int32_t> token;  ///< [T], each in [0, V)
  TensorView table;                ///< [V, D]
  TensorView y;                    ///< [T, D]
};
struct EmbeddingBackwardArgs {
  std::span<const int32_t> token;
  TensorView dy;      ///< [T, D]
  TensorView dtable;  ///< [V, D] f32 (f64), accumulated, rows ascending
};

/// Log-probabilities and entropy of softmax(logits / temperature).
struct LogprobArgs {
  TensorView logits;                ///< [T, V] f32 (f64)
  std::span<const int32_t> target;  ///< [T], each in [0, V)
  float temperature = 1.0f;
  TensorView logp;     ///< [1, T] f32 (f64): log p(target)
  TensorView entropy;  ///< [1, T] or absent: -sum p log p
  TensorView lse;      ///< [1, T] or absent: log-sum-exp of logits / temperature
};
struct LogprobBackwardArgs {
  TensorView logits;
  std::span<const int32_t> target;
  float temperature = 1.0f;
  TensorView lse, entropy;     ///< as the forward pass gave them; entropy only with dentropy
  TensorView dlogp, dentropy;  ///< [1, T]; dentropy may be absent
  TensorView dlogits;          ///< [T, V] compute dtype
};

/// Chooses one token a row by Gumbel-max over the kept part of softmax(logits / temperature). The noise of
/// vocabulary entry j is Philox(seed, (request, position, j)): it depends on nothing else.
struct ChooseArgs {
  TensorView logits;         ///< [T, V] f32
  float temperature = 1.0f;  ///< 0: greedy, the first of the largest
  int64_t top_k = 0;         ///< 0: all
  float top_p = 1.0f;        ///< keeps the smallest set of largest probabilities that reaches top_p
  uint64_t seed = 0;
  std::span<const uint64_t> request;  ///< [T]
  std::span<const int32_t> pos;       ///< [T]
  std::span<int32_t> token;           ///< [T] out
};

// --- optimizer -------------------------------------------------------------------------------------

/// AdamW with decoupled weight decay on FP32 masters; the model's weight is the rounded master.
struct AdamWArgs {
  TensorView master, m, v;  ///< [R, C] f32, in place
  TensorView grad;          ///< [R, C] f32
  TensorView weight;        ///< [R, C] bf16 or f32, out
  float grad_scale = 1.0f;  ///< multiplies the gradient first (clipping)
  float lr = 0, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0;
  int64_t step = 1;  ///< 1-based, for bias correction
};
/// Sum of squares in FP64: chunks of 4096 elements, 16 lanes in each, chunks ascending.
struct SumSquaresArgs {
  TensorView x;  ///< [R, C] f32
  double* out = nullptr;
};

}  // namespace minite
