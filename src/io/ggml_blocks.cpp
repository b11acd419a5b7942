#include "io/ggml_blocks.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/fail.h"
#include "formats/codecs.h"
#include "formats/element_codes.h"
#include "io/float_values.h"

namespace minite::io {
namespace {

uint8_t byte_at(const std::byte* p, int64_t i) { return std::to_integer<uint8_t>(p[i]); }
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}
float half_at(const std::byte* p) { return from_half(load<uint16_t>(p)); }

// --- decoding: one block each ----------------------------------------------------------------------

void decode_q4_0(const std::byte* p, float* y) {
  const float d = half_at(p);
  for (int64_t j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((byte_at(p, 2 + j) & 15) - 8) * d;
    y[j + 16] = static_cast<float>((byte_at(p, 2 + j) >> 4) - 8) * d;
  }
}

void decode_q4_1(const std::byte* p, float* y) {
  const float d = half_at(p), m = half_at(p + 2);
  for (int64_t j = 0; j < 16; ++j) {
    const float low = static_cast<float>(byte_at(p, 4 + j) & 15) * d,
                high = static_cast<float>(byte_at(p, 4 + j) >> 4) * d;
    y[j] = low + m;
    y[j + 16] = high + m;
  }
}

void decode_q8_0(const std::byte* p, float* y) {
  const float d = half_at(p);
  for (int64_t j = 0; j < 32; ++j) y[j] = static_cast<float>(static_cast<int8_t>(byte_at(p, 2 + j))) * d;
}

/// 256 elements: low four bits [128], upper two bits [64], scales of 16 elements [16], d.
void decode_q6_k(const std::byte* p, float* y) {
  const float d = half_at(p + 208);
  for (int64_t half = 0; half < 2; ++half) {
    const std::byte *low = p + 64 * half, *high = p + 128 + 32 * half, *scales = p + 192 + 8 * half;
    for (int64_t l = 0; l < 32; ++l) {
      for (int64_t lane = 0; lane < 4; ++lane) {
        const int nibble = byte_at(low, l + 32 * (lane % 2)) >> (lane < 2 ? 0 : 4) & 15;
        const int q = (nibble | (byte_at(high, l) >> (2 * lane) & 3) << 4) - 32;
        const float scale = d * static_cast<float>(static_cast<int8_t>(byte_at(scales, l / 16 + 2 * lane)));
        y[128 * half + 32 * lane + l] = scale * static_cast<float>(q);
      }
    }
  }
}

constexpr QuantSpec spec_of(GgufType type) {
  return {.format = type == GgufType::nvfp4 ? FormatId::nvfp4 : FormatId::mxfp4,
          .convention = Convention::ggml};
}

/// Twice the code times half the scale, as ggml: for the byte 0xFF the scale alone, 2^128, is infinite.
void decode_mxfp4(const std::byte* p, float* y) {
  const float half = std::ldexp(1.0f, byte_at(p, 0) - 128);
  for (int64_t j = 0; j < 16; ++j) {
    y[j] = 2.0f * E2M1::decode(byte_at(p, 1 + j) & 15) * half;
    y[j + 16] = 2.0f * E2M1::decode(byte_at(p, 1 + j) >> 4) * half;
  }
}

void decode_nvfp4(const std::byte* p, float* y) {
  for (int64_t s = 0; s < 4; ++s) {
    const float d = block_scale_value(spec_of(GgufType::nvfp4), byte_at(p, s));
    for (int64_t j = 0; j < 8; ++j) {
      const uint8_t b = byte_at(p, 4 + 8 * s + j);
      y[16 * s + j] = E2M1::decode(b & 15) * d;
      y[16 * s + 8 + j] = E2M1::decode(b >> 4) * d;
    }
  }
}

void decode_one(GgufType type, const std::byte* p, float* y) {
  switch (type) {
    case GgufType::f32:
      *y = load<float>(p);
      return;
    case GgufType::f16:
      *y = half_at(p);
      return;
    case GgufType::bf16:
      *y = static_cast<float>(bf16::from_bits(load<uint16_t>(p)));
      return;
    case GgufType::q4_0:
      return decode_q4_0(p, y);
    case GgufType::q4_1:
      return decode_q4_1(p, y);
    case GgufType::q8_0:
      return decode_q8_0(p, y);
    case GgufType::q6_k:
      return decode_q6_k(p, y);
    case GgufType::mxfp4:
      return decode_mxfp4(p, y);
    case GgufType::nvfp4:
      return decode_nvfp4(p, y);
  }
}

// --- encoding --------------------------------------------------------------------------------------

/// The code that ggml takes for x in steps: cut off after adding a half, at most 15.
uint8_t step_code(float x) {
  return static_cast<uint8_t>(std::min(15, static_cast<int>(static_cast<int8_t>(x))));
}

void encode_q4_0(const float* x, std::byte* p) {
  float largest = 0, value = 0;  // the signed value of the largest magnitude
  for (int j = 0; j < 32; ++j) {
    if (std::fabs(x[j]) <= largest) continue;
    largest = std::fabs(x[j]);
    value = x[j];
  }
  const float d = value / -8.0f, inverse = d != 0.0f ? 1.0f / d : 0.0f;
  store(p, to_half(d));
  for (int j = 0; j < 16; ++j)
    p[2 + j] = std::byte(step_code(x[j] * inverse + 8.5f) | step_code(x[j + 16] * inverse + 8.5f) << 4);
}

void encode_q4_1(const float* x, std::byte* p) {
  float low = x[0], high = x[0];
  for (int j = 1; j < 32; ++j) low = std::min(low, x[j]), high = std::max(high, x[j]);
  const float d = (high - low) / 15.0f, inverse = d != 0.0f ? 1.0f / d : 0.0f;
  store(p, to_half(d));
  store(p + 2, to_half(low));
  for (int j = 0; j < 16; ++j)
    p[4 + j] = std::byte(step_code((x[j] - low) * inverse + 0.5f) |
                         step_code((x[j + 16] - low) * inverse + 0.5f) << 4);
}

void encode_q8_0(const float* x, std::byte* p) {
  float largest = 0;
  for (int j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(x[j]));
  const float d = largest / 127.0f, inverse = d != 0.0f ? 1.0f / d : 0.0f;
  store(p, to_half(d));
  for (int j = 0; j < 32; ++j)
    p[2 + j] = std::byte(static_cast<uint8_t>(static_cast<int8_t>(std::round(x[j] * inverse))));
}

/// `values` and `bytes` are the same blocks of `type`.
void check_sizes(std::string_view op, GgufType type, size_t values, size_t bytes) {
  const GgufTypeRow& row = gguf_type(type);
  const auto blocks = values / static_cast<size_t>(row.block);
  require(values % static_cast<size_t>(row.block) == 0 && blocks * static_cast<size_t>(row.bytes) == bytes,
          "{}: {} elements and {} bytes are not the same blocks of {} ({} elements in {} bytes)", op, values,
          bytes, row.name, row.block, row.bytes);
}

void check_codes(std::string_view op, GgufType type, const QTensor& q, size_t bytes) {
  require(type == GgufType::mxfp4 || type == GgufType::nvfp4, "{}: {} has no codes of E2M1", op,
          gguf_type(type).name);
  const QuantSpec expected = spec_of(type);
  require(q.spec.format == expected.format && q.spec.convention == expected.convention,
          "{}: {} for blocks of {}; use {}", op, to_string(q.spec), gguf_type(type).name,
          to_string(expected));
  require(q.cols % gguf_type(type).block == 0, "{}: rows of {} elements are not whole blocks of {}", op,
          q.cols, gguf_type(type).block);
  check_sizes(op, type, static_cast<size_t>(q.rows * q.cols), bytes);
}

/// Elements of half a nibble split: the low nibbles of a run of bytes hold its first half.
constexpr int64_t half_of(GgufType type) { return type == GgufType::nvfp4 ? 8 : 16; }

}  // namespace

uint16_t to_half(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x1FFu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65536 and more
  if (magnitude < 0x38800000u) {  // below 2^-14: steps of 2^-24, rounded by the addition of 0.5 (ulp 2^-24)
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000u));
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xFFFu + odd) >> 13));
}

void decode_blocks(GgufType type, std::span<const std::byte> bytes, std::span<float> out) {
  check_sizes("decode_blocks", type, out.size(), bytes.size());
  const GgufTypeRow& row = gguf_type(type);
  const std::byte* p = bytes.data();
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(row.block), p += row.bytes)
    decode_one(type, p, out.data() + i);
}

bool can_encode_blocks(GgufType type) {
  return type != GgufType::q6_k && type != GgufType::mxfp4 && type != GgufType::nvfp4;
}

void encode_blocks(GgufType type, std::span<const float> values, std::span<std::byte> out) {
  check_sizes("encode_blocks", type, values.size(), out.size());
  if (!can_encode_blocks(type))
    fail(ErrorCode::unsupported, "encode_blocks: {} is read, not written; use q8_0, q4_0, q4_1 or bf16",
         gguf_type(type).name);
  const GgufTypeRow& row = gguf_type(type);
  std::byte* p = out.data();
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(row.block), p += row.bytes) {
    const float* x = values.data() + i;
    if (type == GgufType::f32) store(p, *x);
    if (type == GgufType::f16) store(p, to_half(*x));
    if (type == GgufType::bf16) store(p, bf16(*x).bits);
    if (type == GgufType::q4_0) encode_q4_0(x, p);
    if (type == GgufType::q4_1) encode_q4_1(x, p);
    if (type == GgufType::q8_0) encode_q8_0(x, p);
  }
}

void unpack_blocks(GgufType type, std::span<const std::byte> bytes, const QTensor& to) {
  check_codes("unpack_blocks", type, to, bytes.size());
  const GgufTypeRow& row = gguf_type(type);
  const int64_t half = half_of(type), scales = row.block / (2 * half);
  const std::byte* p = bytes.data();
  for (int64_t r = 0; r < to.rows; ++r) {
    for (int64_t c = 0; c < to.cols; c += row.block, p += row.bytes) {
      for (int64_t s = 0; s < scales; ++s) {
        to.block_scales[r * to.scale_stride() + c / (2 * half) + s] = byte_at(p, s);
        const std::byte* from = p + scales + s * half;
        uint8_t* codes = to.codes + r * to.code_stride() + (c + 2 * half * s) / 2;
        for (int64_t j = 0; j < half; j += 2) {
          const uint8_t first = byte_at(from, j), second = byte_at(from, j + 1);
          codes[j / 2] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
          codes[(half + j) / 2] = static_cast<uint8_t>(first >> 4 | (second & 0xF0));
        }
      }
    }
  }
}

void pack_blocks(GgufType type, const QTensor& from, std::span<std::byte> out) {
  check_codes("pack_blocks", type, from, out.size());
  const GgufTypeRow& row = gguf_type(type);
  const int64_t half = half_of(type), scales = row.block / (2 * half);
  std::byte* p = out.data();
  for (int64_t r = 0; r < from.rows; ++r) {
    for (int64_t c = 0; c < from.cols; c += row.block, p += row.bytes) {
      for (int64_t s = 0; s < scales; ++s) {
        p[s] = std::byte(from.block_scales[r * from.scale_stride() + c / (2 * half) + s]);
        std::byte* to = p + scales + s * half;
        const uint8_t* codes = from.codes + r * from.code_stride() + (c + 2 * half * s) / 2;
        for (int64_t j = 0; j < half; j += 2) {
          const uint8_t low = codes[j / 2], high = codes[(half + j) / 2];
          to[j] = std::byte((low & 15) | (high & 15) << 4);
          to[j + 1] = std::byte(low >> 4 | (high & 0xF0));
        }
      }
    }
  }
}

}  // namespace minite::io
