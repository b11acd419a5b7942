#pragma once
// Number formats as rows of one table, and quantized tensors that carry their scales.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "minite/tensor.h"

namespace minite {

/// A storage format: one row of formats(). The sim_ formats exist in software only: they vary the element
/// and the block scale of a 16-element block, one at a time.
enum class FormatId : uint8_t {
  fp32,
  bf16,
  nvfp4,
  mxfp8,
  mxfp8_e5m2,
  mxfp4,
  sim_e2m1,
  sim_e3m1,
  sim_e4m1,
  sim_e5m1,
  sim_e2m2,
  sim_e2m3,
  sim_e2m4,
  sim_e2m1_e8m0,
  sim_e3m1_e8m0,
  sim_e4m1_e8m0,
  sim_e5m1_e8m0,
  sim_e2m2_e8m0,
  sim_e2m3_e8m0,
  sim_e2m4_e8m0,
};

/// Scalar element encodings; `none` marks an absent block scale.
enum class Element : uint8_t { none, fp32, bf16, e2m1, e4m3, e5m2, e8m0, e3m1, e4m1, e5m1, e2m2, e2m3, e2m4 };

/// The set of elements that share one outer (FP32) scale.
enum class OuterScale : uint8_t { none, tensor, expert, row };

/// The arithmetic rule set that fixes scale arithmetic, ties, zero and non-finite handling, the decode and
/// its order; minite/convention.h has a row for each and each format it knows. `te` is Transformer Engine's
/// reference quantizer; for MX formats it is the round-up (rceil) scale rule.
enum class Convention : uint8_t {
  te,
  modelopt,
  compressed_tensors,      ///< statistics in the dtype of x
  compressed_tensors_f32,  ///< statistics in FP32
  torchao,                 ///< two levels: block scales under one of the tensor
  torchao_1level,          ///< block scales alone
  vllm,
  flashinfer,
  flashinfer_test,
  fouroversix,
  ggml,
  rceil,  ///< MX: the scale of the amax rounded up to a power of two
  floor,  ///< MX: the power of two below the amax (OCP)
  even,   ///< MX: the amax rounded to the element's mantissa, then floor
  ceil,   ///< MX: the power of two above the amax
  microxcaling,
};

/// Shape of the block that shares one block scale.
enum class BlockShape : uint8_t {
  row,   ///< `block` elements along the contracted dimension (1D)
  tile,  ///< block x block elements (2D): codes of the transpose are the transposed codes
};

/// How an NVFP4 block chooses its scale.
enum class ScaleSearch : uint8_t {
  amax,              ///< the block's amax becomes 6
  four_six_mae,      ///< the amax becomes 6 or 4, whichever gives the smaller sum of |error|
  four_six_mse,      ///< the same with the sum of squares
  amax4,             ///< the block's amax becomes 4
  four_six_abs_max,  ///< 6 or 4, whichever gives the smaller largest |error|
};

/// Rounding of elements to codes.
enum class Rounding : uint8_t {
  nearest,     ///< nearest even
  stochastic,  ///< up with a probability equal to the distance, in 256 steps; Philox by element
};

/// What happens to x before it is quantized.
enum class Rotation : uint8_t {
  none,
  hadamard,  ///< 16-point Hadamard with Transformer Engine's signs along the contracted dimension, then BF16
};

/// One row of the format table.
struct Format {
  FormatId id;
  std::string_view name;     ///< as written on the command line
  Element element;           ///< element encoding
  int bits;                  ///< stored bits an element
  int block;                 ///< elements along the contracted dimension that share a block scale; 0: none
  Element block_scale;       ///< block scale encoding, Element::none without blocks
  bool outer_scale;          ///< whether outer scales other than none, and the options of NVFP4, are possible
  std::string_view layout;   ///< byte layout in words
  std::string_view purpose;  ///< one sentence
  bool simulated = false;    ///< exists in software only
};

/// All formats, in FormatId order.
[[nodiscard]] std::span<const Format> formats();
/// The row of `id`.
[[nodiscard]] const Format& format(FormatId id);
/// The row named `name`; throws not_found and offers the nearest name.
[[nodiscard]] const Format& format(std::string_view name);

[[nodiscard]] std::string_view to_string(Element element);
[[nodiscard]] std::string_view to_string(OuterScale outer);
[[nodiscard]] std::string_view to_string(Convention convention);
[[nodiscard]] std::string_view to_string(BlockShape blocks);
[[nodiscard]] std::string_view to_string(ScaleSearch search);
[[nodiscard]] std::string_view to_string(Rounding rounding);
[[nodiscard]] std::string_view to_string(Rotation rotation);

/// How a tensor is quantized; a plain value.
struct QuantSpec {
  FormatId format = FormatId::bf16;
  OuterScale outer = OuterScale::none;
  Convention convention = Convention::te;
  BlockShape blocks = BlockShape::row;
  ScaleSearch search = ScaleSearch::amax;
  Rounding rounding = Rounding::nearest;
  Rotation rotation = Rotation::none;
  int16_t scale_max = 448;  ///< NVFP4: the block scale that the outer amax maps to, 448 or 256
  int16_t block = 0;  ///< simulated formats: elements of a block, 8 to 128 in steps of 8; 0: the format's

  friend constexpr bool operator==(const QuantSpec&, const QuantSpec&) = default;
  /// Whether codes and scales exist (false for fp32 and bf16).
  [[nodiscard]] bool quantized() const;
  /// Throws invalid_argument when the fields contradict each other, e.g. an outer scale on mxfp8.
  void validate() const;
  /// Elements along a row that share a block scale; 0 without blocks.
  [[nodiscard]] int block_size() const;
  /// Whether codes and scales of the transpose are those of the matrix, moved: one scale for a tile and for
  /// the whole tensor, and no choice that depends on the order or the place of elements.
  [[nodiscard]] bool transposable() const;
  /// Columns of the codes of a row of `cols` elements: a rotation fills whole groups of 16.
  [[nodiscard]] int64_t stored_cols(int64_t cols) const;
};
/// "nvfp4[te,outer=row]", "nvfp4[te,outer=tensor,2d]", "mxfp8", "mxfp4[floor]", "sim_e2m2[block=32]", "bf16".
[[nodiscard]] std::string to_string(const QuantSpec& spec);

/// A quantized matrix [rows, cols]: codes, block scales along each row, outer scales. A non-owning
/// view; QBuffer owns one. All parts travel together so that no scale is ever applied to other codes.
///
/// Layout: nvfp4 and mxfp4 codes are [rows, ceil(cols/2)] bytes, the even column in the low nibble; mxfp8
/// codes and sim_ codes are [rows, cols] bytes. Block scales are [rows, ceil(cols/block)] bytes; the rows of
/// a 2D tile repeat its scale. A last block that is cut by `cols` (a tile also by `rows`) behaves as if
/// padded with zeros.
struct QTensor {
  QuantSpec spec;
  int64_t rows = 0;
  int64_t cols = 0;
  uint8_t* codes = nullptr;
  uint8_t* block_scales = nullptr;
  float* outer = nullptr;  ///< decode multipliers: [1] for tensor, [rows] for row, nullptr for none
  float* amax = nullptr;   ///< same shape as outer: the max |x| the multiplier was made from
  /// Same shape as outer, where the convention stores and decodes with a reciprocal (compressed-tensors,
  /// vllm): its rounding is its own, so that `outer` does not give it back. nullptr elsewhere.
  float* reciprocal = nullptr;

  [[nodiscard]] bool empty() const { return codes == nullptr; }
  [[nodiscard]] int64_t code_stride() const;   ///< bytes a row of codes
  [[nodiscard]] int64_t scale_stride() const;  ///< bytes a row of block scales
  [[nodiscard]] int64_t outer_count() const;   ///< 0, 1 or rows
  /// What the convention's peer stores for `row` and decodes with: amax, multiplier or reciprocal
  /// (minite/convention.h); 1 without an outer scale.
  [[nodiscard]] float stored_global(int64_t row) const;
  /// Decode multiplier of `row`: 1 without an outer scale.
  [[nodiscard]] float outer_of(int64_t row) const {
    return outer == nullptr ? 1.0f : outer[spec.outer == OuterScale::row ? row : 0];
  }
  /// Outer amax of `row`; needs an outer scale.
  [[nodiscard]] float amax_of(int64_t row) const { return amax[spec.outer == OuterScale::row ? row : 0]; }
  /// Rows [begin, begin + count); a tensor-wide outer scale stays shared.
  [[nodiscard]] QTensor slice_rows(int64_t begin, int64_t count) const;
  /// Bytes of codes + block scales + outer scales + amaxes (+ reciprocals) for a [rows, cols] tensor, each
  /// part aligned to 64 bytes.
  [[nodiscard]] static int64_t bytes(const QuantSpec& spec, int64_t rows, int64_t cols);
  /// Lays the parts out in `memory` (at least bytes(), 64-byte aligned). Contents are not touched.
  [[nodiscard]] static QTensor place(const QuantSpec& spec, int64_t rows, int64_t cols, void* memory);
};

}  // namespace minite
