#pragma once
// Rows of operands as FP32: codes times block scales, without the outer scale. Every value equals
// ref::decode_element (NaN for NaN).
#include "backends/ref/quantize.h"
#include "backends/simd/vec_int.h"
#include "formats/codecs.h"
#include "formats/sim.h"
#include "minite/format.h"

namespace minite::simd::MINITE_ISA {

/// Whether codes are made and decoded by the vector bodies here; other specs take the reference's rows.
inline bool in_lanes(const QuantSpec& spec) {
  if (spec.convention != Convention::te) return false;
  if (spec.format == FormatId::nvfp4 || spec.format == FormatId::mxfp8) return true;
  return format(spec.format).simulated && spec.block_size() == format(spec.format).block;
}

/// E2M1 by code; entry 8 + i is the negative of entry i.
alignas(64) inline constexpr float kE2M1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                                -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/// Magnitudes of E4M3 codes 0..0x7F as FP32 bits, 0x7F as 480.
MINITE_INLINE vi e4m3_magnitude(vi code) {
  const vi normal = shift_left<20>(code) + vi(120u << 23);  // rebias 7 -> 127
  const vi subnormal = bits(to_float(code) * vf(0x1p-9f));
  return select(vi(8u) > code, subnormal, normal);
}
/// E4M3 bytes, one a lane.
MINITE_INLINE vf decode_e4m3(vi code) {
  const vi magnitude = code & vi(0x7Fu);
  const vi u = select(magnitude > vi(0x7Eu), vi(0x7FC00000u), e4m3_magnitude(magnitude));
  return from_bits(u | shift_left<24>(code & vi(0x80u)));
}
/// Block scales of NVFP4 as their convention reads them: E4M3, or for ggml peer::decode_ue4m3.
MINITE_INLINE vf decode_nvfp4_scale(vi byte, const QuantSpec& spec) {
  if (spec.convention != Convention::ggml) return decode_e4m3(byte);
  const vi magnitude = e4m3_magnitude(byte & vi(0x7Fu));
  return from_bits(select(byte > vi(0x7Eu), select(byte > vi(0x7Fu), magnitude, vi(0u)), magnitude));
}

/// Sixteen NVFP4 codes in 8 bytes.
MINITE_INLINE vf decode_e2m1(uint64_t bytes) { return lookup16(kE2M1, unpack_nibbles(bytes)); }

/// Columns [begin, end) of a row of NVFP4 codes, begin a multiple of 16; scale(b) is the multiplier of
/// block b of the row.
template <class Scale>
MINITE_INLINE void decode_nvfp4(const uint8_t* codes, int64_t begin, int64_t end, const Scale& scale,
                                float* out) {
  int64_t c = begin;
  for (; c + 16 <= end; c += 16) {
    uint64_t bytes;
    std::memcpy(&bytes, codes + c / 2, 8);
    store(out + (c - begin), decode_e2m1(bytes) * vf(scale(c / 16)));
  }
  if (c == end) return;
  uint64_t bytes = 0;
  std::memcpy(&bytes, codes + c / 2, static_cast<size_t>((end - c + 1) / 2));
  store(out + (c - begin), decode_e2m1(bytes) * vf(scale(c / 16)), end - c);
}

/// Columns [begin, end) of a row of MXFP8 codes, begin a multiple of 32.
MINITE_INLINE void decode_mxfp8(const uint8_t* codes, const uint8_t* scales, int64_t begin, int64_t end,
                                float* out) {
  for (int64_t c = begin; c < end; c += kLanes) {
    const int64_t n = end - c < kLanes ? end - c : kLanes;
    const vf x = decode_e4m3(load_u8(codes + c, n)) * vf(E8M0::decode(scales[c / 32]));
    store_n(out + (c - begin), x, n);
  }
}

/// Bytes of a simulated element, one a lane.
template <class Codec>
MINITE_INLINE vf decode_sim(vi code) {
  constexpr int kMantissa = Codec::kMantissaBits;
  constexpr float kStep = std::bit_cast<float>(static_cast<uint32_t>(128 - Codec::kBias - kMantissa) << 23);
  const vi magnitude = code & vi(0x7Fu);
  const vi normal =
      shift_left<23 - kMantissa>(magnitude) + vi(static_cast<uint32_t>(127 - Codec::kBias) << 23);
  vi u = select(vi(1u << kMantissa) > magnitude, bits(to_float(magnitude) * vf(kStep)), normal);
  u = u | shift_left<24>(code & vi(0x80u));
  return from_bits(select(magnitude > vi(Codec::kMaxCode), vi(0x7FC00000u), u));
}

/// Value of a simulated format's block scale.
MINITE_INLINE float decode_sim_scale(const Format& format, uint8_t scale) {
  return format.block_scale == Element::e8m0 ? E8M0::decode(scale) : E4M3::decode(scale);
}

/// Columns [begin, end) of a row of a simulated format, begin a multiple of 16.
MINITE_INLINE void decode_sim_row(const Format& format, const uint8_t* codes, const uint8_t* scales,
                                  int64_t begin, int64_t end, float* out) {
  with_sim_element(format.element, [&](auto codec) {
    for (int64_t c = begin; c < end; c += kLanes) {
      const int64_t n = end - c < kLanes ? end - c : kLanes;
      const vf x = decode_sim<decltype(codec)>(load_u8(codes + c, n));
      store_n(out + (c - begin), x * vf(decode_sim_scale(format, scales[c / 16])), n);
    }
  });
}

/// Whether decode_row has a vector body: operands of products carry no outer scale, so most conventions
/// agree. ggml's E8M0 has no NaN.
inline bool operand_in_lanes(const QuantSpec& spec) {
  if (spec.format == FormatId::mxfp8_e5m2) return false;
  if (spec.format == FormatId::mxfp4 && spec.convention == Convention::ggml) return false;
  return spec.block_size() == format(spec.format).block;
}

/// Columns [col_begin, col_end) of row `row`; col_begin is a multiple of 32. Writes exactly
/// col_end - col_begin values.
MINITE_INLINE void decode_row(const QTensor& q, int64_t row, int64_t col_begin, int64_t col_end, float* out) {
  if (!operand_in_lanes(q.spec)) {
    for (int64_t c = col_begin; c < col_end; ++c) out[c - col_begin] = ref::decode_element(q, row, c);
    return;
  }
  const uint8_t* codes = q.codes + row * q.code_stride();
  const uint8_t* scales = q.block_scales + row * q.scale_stride();
  if (q.spec.format == FormatId::mxfp4)
    return decode_nvfp4(
        codes, col_begin, col_end, [&](int64_t b) { return E8M0::decode(scales[b / 2]); }, out);
  if (q.spec.format == FormatId::mxfp8) return decode_mxfp8(codes, scales, col_begin, col_end, out);
  if (q.spec.format != FormatId::nvfp4)
    return decode_sim_row(format(q.spec.format), codes, scales, col_begin, col_end, out);
  // Sixteen block scales at a time.
  for (int64_t c = col_begin; c < col_end; c += 256) {
    const int64_t end = col_end - c < 256 ? col_end : c + 256;
    alignas(64) float d[kLanes];
    store(d, decode_nvfp4_scale(load_u8(scales + c / 16, (end - c + 15) / 16), q.spec));
    decode_nvfp4(
        codes, c, end, [&](int64_t b) { return d[b - c / 16]; }, out + (c - col_begin));
  }
}

/// The same columns of a row of a dense matrix, bf16 or f32.
MINITE_INLINE void decode_row(const TensorView& x, int64_t row, int64_t col_begin, int64_t col_end,
                              float* out) {
  const auto copy = [&](const auto* p) {
    for_lanes(col_end - col_begin,
              [&](int64_t i, int64_t n) { store_n(out + i, load_n(p + col_begin + i, n), n); });
  };
  if (x.dtype == DType::bf16) return copy(x.row<const bf16>(row));
  copy(x.row<const float>(row));
}

}  // namespace minite::simd::MINITE_ISA
