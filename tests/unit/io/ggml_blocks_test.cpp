// ggml's blocks: values by their formulas, encoders by what they must give back, codes byte for byte.
#include "io/ggml_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "core/memory.h"
#include "io/float_values.h"
#include "support/temp_folder.h"

namespace minite::io {
namespace {
using minite::test_support::error_of;
using minite::test_support::holds;

std::vector<std::byte> blocks(std::initializer_list<int> bytes) {
  std::vector<std::byte> out;
  for (const int b : bytes) out.push_back(std::byte(static_cast<uint8_t>(b)));
  return out;
}
std::vector<float> decoded(GgufType type, const std::vector<std::byte>& bytes) {
  const GgufTypeRow& row = gguf_type(type);
  std::vector<float> out(bytes.size() / static_cast<size_t>(row.bytes) * static_cast<size_t>(row.block));
  decode_blocks(type, bytes, out);
  return out;
}
std::vector<float> normal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> x(count);
  for (float& v : x) v = draw(random);
  return x;
}

TEST(GgmlBlocks, EveryHalfRoundsToItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = from_half(static_cast<uint16_t>(bits));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(from_half(to_half(x))));
      continue;
    }
    ASSERT_EQ(to_half(x), bits);
  }
}

TEST(GgmlBlocks, HalvesRoundToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = from_half(static_cast<uint16_t>(bits)),
                high = from_half(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact: one bit more than a half has
    ASSERT_EQ(to_half(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 1e6f)), bits + 1) << bits;
    ASSERT_EQ(to_half(-middle), (bits % 2 == 0 ? bits : bits + 1) | 0x8000u) << bits;
  }
  EXPECT_EQ(to_half(65519.9f), 0x7BFF);
  EXPECT_EQ(to_half(65520.0f), 0x7C00);
  EXPECT_EQ(to_half(-INFINITY), 0xFC00);
}

TEST(GgmlBlocks, Q4AndQ8FollowTheirFormulas) {
  std::vector<std::byte> q4_0 = blocks({0x00, 0x38});              // d = 0.5
  std::vector<std::byte> q4_1 = blocks({0x00, 0x38, 0x00, 0xC0});  // d = 0.5, m = -2
  std::vector<std::byte> q8_0 = blocks({0x00, 0x34});              // d = 0.25
  for (int j = 0; j < 16; ++j) {
    q4_0.push_back(std::byte(static_cast<uint8_t>(j | (15 - j) << 4)));
    q4_1.push_back(q4_0.back());
  }
  for (int j = 0; j < 32; ++j) q8_0.push_back(std::byte(static_cast<uint8_t>(8 * j - 128)));
  const std::vector<float> a = decoded(GgufType::q4_0, q4_0), b = decoded(GgufType::q4_1, q4_1),
                           c = decoded(GgufType::q8_0, q8_0);
  for (int j = 0; j < 16; ++j) {
    const auto i = static_cast<size_t>(j);
    EXPECT_EQ(a[i], 0.5f * static_cast<float>(j - 8));
    EXPECT_EQ(a[i + 16], 0.5f * static_cast<float>(7 - j));
    EXPECT_EQ(b[i], 0.5f * static_cast<float>(j) - 2.0f);
    EXPECT_EQ(b[i + 16], 0.5f * static_cast<float>(15 - j) - 2.0f);
  }
  for (int j = 0; j < 32; ++j) EXPECT_EQ(c[static_cast<size_t>(j)], 0.25f * static_cast<float>(8 * j - 128));
}

/// Each element of Q6_K alone: six bits q at its place, everything else zero (q = -32).
TEST(GgmlBlocks, EveryPlaceOfQ6KIsReadOnce) {
  for (int i = 0; i < 256; ++i) {
    std::vector<std::byte> block(210);
    for (int s = 0; s < 16; ++s) block[static_cast<size_t>(192 + s)] = std::byte(static_cast<uint8_t>(s + 1));
    block[209] = std::byte{0x3C};                                            // d = 1
    const int half = i / 128, lane = i % 128 / 32, l = i % 32, q = 32 + 21;  // 53 = 0b110101
    block[static_cast<size_t>(64 * half + l + 32 * (lane % 2))] =
        std::byte(static_cast<uint8_t>((q & 15) << (lane < 2 ? 0 : 4)));
    block[static_cast<size_t>(128 + 32 * half + l)] = std::byte(static_cast<uint8_t>((q >> 4) << (2 * lane)));
    const std::vector<float> y = decoded(GgufType::q6_k, block);
    for (int j = 0; j < 256; ++j) {
      const float scale = static_cast<float>(j / 16 + 1);  // scales are in order, 16 elements each
      ASSERT_EQ(y[static_cast<size_t>(j)], scale * (j == i ? 21.0f : -32.0f)) << i << ", " << j;
    }
  }
}

TEST(GgmlBlocks, EncodersStayWithinHalfAStep) {
  const std::vector<float> x = normal(32 * 200, 7);
  struct Case {
    GgufType type;
    float steps;  ///< of the block's largest magnitude, or of its range for q4_1
  };
  for (const auto& [type, steps] :
       {Case{GgufType::q4_0, 8}, Case{GgufType::q4_1, 15}, Case{GgufType::q8_0, 127}}) {
    std::vector<std::byte> bytes(200 * static_cast<size_t>(gguf_type(type).bytes));
    encode_blocks(type, x, bytes);
    const std::vector<float> y = decoded(type, bytes);
    for (size_t block = 0; block < 200; ++block) {
      float low = 1e9f, high = -1e9f, largest = 0;
      for (size_t j = 32 * block; j < 32 * block + 32; ++j) {
        low = std::min(low, x[j]), high = std::max(high, x[j]), largest = std::max(largest, std::fabs(x[j]));
      }
      const float step = (type == GgufType::q4_1 ? high - low : largest) / steps;
      // Q4_0 has no code for +8 steps: what lies beyond 7.5 is cut. The scale itself was rounded to a half.
      const float bound = (type == GgufType::q4_0 ? 1.0f : 0.5f) * step + largest * 0x1p-9f;
      for (size_t j = 32 * block; j < 32 * block + 32; ++j) ASSERT_LE(std::fabs(x[j] - y[j]), bound) << j;
    }
  }
}

TEST(GgmlBlocks, WideTypesAreExactOrRoundedOnce) {
  const std::vector<float> x = normal(64, 8);
  for (const GgufType type : {GgufType::f32, GgufType::f16, GgufType::bf16}) {
    std::vector<std::byte> bytes(64 * static_cast<size_t>(gguf_type(type).bytes));
    encode_blocks(type, x, bytes);
    const std::vector<float> y = decoded(type, bytes);
    std::vector<std::byte> again(bytes.size());
    encode_blocks(type, y, again);
    EXPECT_EQ(bytes, again);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_LE(std::fabs(x[i] - y[i]), std::fabs(x[i]) * (type == GgufType::f32   ? 0.0f
                                                           : type == GgufType::f16 ? 0x1p-11f
                                                                                   : 0x1p-8f));
  }
}

/// Random bytes to codes and back, and the values of both are the same.
TEST(GgmlBlocks, CodesOfMxfp4AndNvfp4MoveWholly) {
  std::mt19937 random(9);
  for (const GgufType type : {GgufType::mxfp4, GgufType::nvfp4}) {
    const QuantSpec spec{.format = type == GgufType::nvfp4 ? FormatId::nvfp4 : FormatId::mxfp4,
                         .convention = Convention::ggml};
    constexpr int64_t kRows = 5, kCols = 192;
    std::vector<std::byte> bytes(
        static_cast<size_t>(kRows * kCols / gguf_type(type).block * gguf_type(type).bytes));
    for (std::byte& b : bytes) b = std::byte(static_cast<uint8_t>(random()));
    Buffer memory(QTensor::bytes(spec, kRows, kCols));
    const QTensor q = QTensor::place(spec, kRows, kCols, memory.data());
    unpack_blocks(type, bytes, q);
    std::vector<std::byte> again(bytes.size());
    pack_blocks(type, q, again);
    EXPECT_EQ(bytes, again);
    const std::vector<float> y = decoded(type, bytes);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kCols; ++c) {
        const uint8_t code = q.codes[r * q.code_stride() + c / 2] >> (c % 2 * 4) & 15;
        static constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
        const uint8_t scale = q.block_scales[r * q.scale_stride() + c / spec.block_size()];
        float expected = kValues[code & 7] * (code & 8 ? -1.0f : 1.0f);
        if (type == GgufType::nvfp4) {
          const int e = scale >> 3 & 15, m = scale & 7;
          expected *= (scale & 0x7F) == 0x7F ? 0.0f
                      : e == 0               ? std::ldexp(static_cast<float>(m), -9)
                                             : std::ldexp(1.0f + static_cast<float>(m) / 8, e - 7);
        } else {
          expected = 2.0f * expected * std::ldexp(1.0f, scale - 128);
        }
        const float got = y[static_cast<size_t>(r * kCols + c)];
        ASSERT_EQ(got, expected) << gguf_type(type).name << " " << r << ", " << c;
      }
    }
  }
}

TEST(GgmlBlocks, RefusalsNameTheSizes) {
  std::vector<float> x(33);
  std::vector<std::byte> bytes(18);
  EXPECT_TRUE(holds(error_of([&] { decode_blocks(GgufType::q4_0, bytes, x); }).what(),
                    "33 elements and 18 bytes are not the same blocks of q4_0 (32 elements in 18 bytes)"));
  x.resize(256);
  bytes.resize(210);
  const Error error = error_of([&] { encode_blocks(GgufType::q6_k, x, bytes); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(holds(error.what(), "q6_k is read, not written"));
}

}  // namespace
}  // namespace minite::io
