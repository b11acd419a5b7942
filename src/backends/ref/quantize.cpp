#include "backends/ref/quantize.h"

#include "backends/ref/numeric.h"

namespace minite::ref {
namespace {

/// Reads x along rows or along columns as the quantizer sees it.
template <class T>
struct Reader {
  const QuantizeArgs& args;
  [[nodiscard]] float operator()(int64_t r, int64_t c) const {
    const bool rows = args.along == Orientation::rows;
    return static_cast<float>(rows ? args.x.template row<const T>(r)[c] : args.x.template row<const T>(c)[r]);
  }
};

template <class Read>
float block_amax(const Read& x, int64_t r, int64_t begin, int64_t end) {
  Amax amax;
  for (int64_t c = begin; c < end; ++c) amax.add(x(r, c));
  return amax.value();
}

void put_nibble(uint8_t* codes, int64_t c, uint8_t code) {
  uint8_t& byte = codes[c / 2];
  byte = c % 2 == 0 ? code : static_cast<uint8_t>(byte | (code << 4));
}

template <class Read>
void nvfp4_row(const Read& x, int64_t r, float s_enc, float s_dec, const QTensor& out) {
  const float per_six = s_enc * kSixth;
  uint8_t* codes = out.codes + r * out.code_stride();
  for (int64_t begin = 0, b = 0; begin < out.cols; begin += 16, ++b) {
    const int64_t end = std::min(begin + 16, out.cols);
    const Nvfp4Block block = nvfp4_block(block_amax(x, r, begin, end), per_six, s_dec);
    out.block_scales[r * out.scale_stride() + b] = block.scale;
    for (int64_t c = begin; c < end; ++c) put_nibble(codes, c, E2M1::encode(x(r, c) * block.encode));
  }
}

template <class Read>
void quantize_nvfp4(const Read& x, const QTensor& out) {
  const bool by_row = out.spec.outer == OuterScale::row;
  float amax = 0;
  if (out.spec.outer == OuterScale::tensor || out.spec.outer == OuterScale::expert) {
    Amax all;
    for (int64_t r = 0; r < out.rows; ++r) {
      for (int64_t c = 0; c < out.cols; ++c) all.add(x(r, c));
    }
    amax = all.value();
  }
  for (int64_t r = 0; r < out.rows; ++r) {
    if (by_row) amax = block_amax(x, r, 0, out.cols);
    const bool outer = out.spec.outer != OuterScale::none;
    const float s_enc = outer ? nvfp4_encode_scale(amax) : 1.0f;
    const float s_dec = 1.0f / s_enc;
    if (by_row || (outer && r == 0)) {
      out.amax[r] = amax;
      out.outer[r] = s_dec;
    }
    nvfp4_row(x, r, s_enc, s_dec, out);
  }
}

/// Every NaN is one byte: the sign of a product of NaNs depends on the order of its operands.
uint8_t e4m3_code(float x) { return codec_detail::is_nan(x) ? E4M3::kNaN : E4M3::encode(x); }

template <class Read>
void quantize_mxfp8(const Read& x, const QTensor& out) {
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t begin = 0, b = 0; begin < out.cols; begin += 32, ++b) {
      const int64_t end = std::min(begin + 32, out.cols);
      const uint8_t scale = E8M0::encode_round_up(block_amax(x, r, begin, end) * (1.0f / 448.0f));
      out.block_scales[r * out.scale_stride() + b] = scale;
      for (int64_t c = begin; c < end; ++c) {
        out.codes[r * out.code_stride() + c] = e4m3_code(x(r, c) * E8M0::inverse(scale));
      }
    }
  }
}

template <class T>
void quantize_typed(const QuantizeArgs& args) {
  const Reader<T> x{args};
  if (args.out.spec.format == FormatId::nvfp4) return quantize_nvfp4(x, args.out);
  quantize_mxfp8(x, args.out);
}

float dequantize_element(const QTensor& q, int64_t r, int64_t c) {
  if (q.spec.format == FormatId::mxfp8) return decode_element(q, r, c);
  const uint8_t byte = q.codes[r * q.code_stride() + c / 2];
  const float code = E2M1::decode(c % 2 == 0 ? byte & 15u : byte >> 4);
  const float* amax = q.outer_count() == 0 ? nullptr : q.amax + (q.spec.outer == OuterScale::row ? r : 0);
  return code * nvfp4_decode_scale(q.block_scales[r * q.scale_stride() + c / 16], amax);
}

}  // namespace

void quantize(const QuantizeArgs& args) {
  if (args.x.dtype == DType::bf16) return quantize_typed<bf16>(args);
  quantize_typed<float>(args);
}

float decode_element(const QTensor& q, int64_t r, int64_t c) {
  if (q.spec.format == FormatId::mxfp8) {
    const float scale = E8M0::decode(q.block_scales[r * q.scale_stride() + c / 32]);
    return E4M3::decode(q.codes[r * q.code_stride() + c]) * scale;
  }
  const uint8_t byte = q.codes[r * q.code_stride() + c / 2];
  const float code = E2M1::decode(c % 2 == 0 ? byte & 15u : byte >> 4);
  return code * E4M3::decode(q.block_scales[r * q.scale_stride() + c / 16]);
}

void dequantize(const DequantizeArgs& args) {
  for (int64_t r = 0; r < args.q.rows; ++r) {
    for (int64_t c = 0; c < args.q.cols; ++c) {
      const float value = dequantize_element(args.q, r, c);
      if (args.y.dtype == DType::bf16) {
        args.y.row<bf16>(r)[c] = bf16(value);
      } else {
        args.y.row<float>(r)[c] = value;
      }
    }
  }
}

}  // namespace minite::ref
