#pragma once
// One operand of a product as device code reads it: element (row, k) without the outer scale, in FP32.
#include <string>

#include "formats/codecs.h"
#include "ops/args.h"

namespace minite::cuda {

/// How the elements of an operand are stored.
enum class Stored : uint8_t { bf16, fp32, nvfp4, nvfp4_unsigned_scale, mxfp4, mxfp8_e4m3, mxfp8_e5m2 };

struct DeviceOperand {
  Stored stored;
  const uint8_t* codes;   ///< or the dense matrix
  const uint8_t* scales;  ///< block scales
  int64_t row_stride;     ///< of codes in bytes, of dense rows in elements
  int64_t k_stride;       ///< of a dense element of the next k, in elements
  int64_t scale_stride;   ///< bytes a row of block scales
  const float* outer;     ///< or nullptr
  int64_t outer_step;     ///< 1: one a row, 0: one for all
};

/// Why device code cannot read elements of this format and convention, "" when it can.
[[nodiscard]] std::string operand_problem(FormatId format, Convention convention);
/// Throws unsupported when operand_problem() has something to say.
[[nodiscard]] DeviceOperand device_operand(const Operand& x);

#ifdef __CUDACC__
/// ggml's unsigned E4M3: 0x7F is 0, the top bit does not count otherwise.
__device__ inline float decode_scale(uint8_t byte, Stored stored) {
  if (stored != Stored::nvfp4_unsigned_scale) return E4M3::decode(byte);
  return byte == E4M3::kNaN ? 0.0f : codec_detail::decode_magnitude<3, 7>(byte & 0x7Fu);
}

__device__ inline float element(const DeviceOperand& x, int64_t r, int64_t k) {
  const auto nibble = [&] {
    const uint8_t byte = x.codes[r * x.row_stride + k / 2];
    return static_cast<uint8_t>(k % 2 == 0 ? byte & 15u : byte >> 4);
  };
  const auto scale = [&](int block) { return x.scales[r * x.scale_stride + k / block]; };
  const int64_t dense = r * x.row_stride + k * x.k_stride;
  switch (x.stored) {
    case Stored::bf16:
      return static_cast<float>(reinterpret_cast<const bf16*>(x.codes)[dense]);
    case Stored::fp32:
      return reinterpret_cast<const float*>(x.codes)[dense];
    case Stored::nvfp4:
    case Stored::nvfp4_unsigned_scale:
      return E2M1::decode(nibble()) * decode_scale(scale(16), x.stored);
    case Stored::mxfp4:
      return E2M1::decode(nibble()) * E8M0::decode(scale(32));
    case Stored::mxfp8_e4m3:
      return E4M3::decode(x.codes[r * x.row_stride + k]) * E8M0::decode(scale(32));
    case Stored::mxfp8_e5m2:
      return E5M2::decode(x.codes[r * x.row_stride + k]) * E8M0::decode(scale(32));
  }
  return 0.0f;
}

#endif

}  // namespace minite::cuda
