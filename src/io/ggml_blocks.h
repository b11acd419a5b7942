#pragma once
// Blocks of ggml's tensor types (ggml-common.h, ggml-quants.c) to FP32 and back, and its MXFP4 and NVFP4
// blocks to and from QTensor, byte for byte.
#include "io/gguf.h"
#include "minite/format.h"

namespace minite::io {

/// Values of `bytes`, whole blocks of `type`, in FP32 with ggml's arithmetic: one rounding of d*q for Q4_0,
/// Q8_0 and MX types, d*q rounded and then m added for Q4_1, d*scale rounded and then times q for Q6_K. `out`
/// has as many elements as the blocks. Error: invalid_argument when the sizes disagree.
void decode_blocks(GgufType type, std::span<const std::byte> bytes, std::span<float> out);

/// Whether encode_blocks() writes `type`: all but Q6_K, MXFP4 and NVFP4, whose codes come from elsewhere.
[[nodiscard]] bool can_encode_blocks(GgufType type);
/// ggml's own quantizers (quantize_row_*_ref): F32, F16, BF16, Q4_0, Q4_1, Q8_0. Errors: invalid_argument
/// when the sizes disagree, unsupported for another type.
void encode_blocks(GgufType type, std::span<const float> values, std::span<std::byte> out);

/// Codes and block scales of MXFP4 or NVFP4 blocks, rows of to.cols elements. `to` has the matching format
/// under Convention::ggml; its outer scale, if any, is not touched. Error: invalid_argument when formats or
/// sizes disagree.
void unpack_blocks(GgufType type, std::span<const std::byte> bytes, const QTensor& to);
/// The reverse: the same bytes again.
void pack_blocks(GgufType type, const QTensor& from, std::span<std::byte> out);

/// The bits of x rounded to IEEE binary16, nearest even; NaN stays a quiet NaN, what is too large becomes
/// infinite.
[[nodiscard]] uint16_t to_half(float x);

}  // namespace minite::io
