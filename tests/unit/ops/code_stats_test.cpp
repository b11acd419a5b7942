// Counts over codes against a brute force count over values.
#include "ops/code_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/registry.h"
#include "core/memory.h"
#include "core/philox.h"
#include "ops/ops.h"

namespace minite::ops {
namespace {

/// Values over many binary exponents; a third of the rows are tiny, one in seven values is 0.
std::vector<float> spread(int64_t rows, int64_t cols) {
  std::vector<float> x;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const auto words = Philox::generate(7, static_cast<uint64_t>(i), 0);
    const float unit = Philox::unit(words[0]) * 2.0f - 1.0f;
    const int power = static_cast<int>(words[1] % 14) - 7 - ((i / cols) % 3 == 0 ? 20 : 0);
    x.push_back(words[2] % 7 == 0 ? 0.0f : std::ldexp(unit, power));
  }
  return x;
}

float largest_of(Element element) {
  switch (element) {
    case Element::e2m1:
      return 6;
    case Element::e4m3:
      return 448;
    case Element::e3m1:
      return 24;
    case Element::e4m1:
      return 384;
    default:
      return 7.75f;  // E2M4
  }
}

/// One block's scale as a value; E4M3 and E8M0 by their definitions.
double scale_value(Element element, uint8_t byte) {
  if (element == Element::e8m0) return byte == 0xFF ? NAN : std::ldexp(1.0, byte - 127);
  if ((byte & 0x7F) == 0x7F) return NAN;
  const int exponent = byte >> 3 & 15, mantissa = byte & 7;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
}

void check(const QuantSpec& spec) {
  SCOPED_TRACE(to_string(spec));
  constexpr int64_t kRows = 37, kCols = 83;
  std::vector<float> x = spread(kRows, kCols), y(x.size());
  ThreadPool pool(1);
  const Context ctx{&backend("ref"), &pool, nullptr, {}};
  const Buffer memory(QTensor::bytes(spec, kRows, kCols));
  const QTensor q = QTensor::place(spec, kRows, kCols, memory.data());
  quantize(ctx, {TensorView(x.data(), kRows, kCols), Orientation::rows, q, {}});
  dequantize(ctx, {q, TensorView(y.data(), kRows, kCols)});

  const Format& row = format(spec.format);
  const bool tile = spec.blocks == BlockShape::tile;
  ScaleStats expected;
  int64_t saturated = 0, counted = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t b = 0; b < q.scale_stride() && (!tile || r % row.block == 0); ++b) {
      const double d = scale_value(row.block_scale, q.block_scales[r * q.scale_stride() + b]);
      ++expected.blocks;
      expected.zero += d == 0 ? 1 : 0;
      expected.nan += std::isnan(d) ? 1 : 0;
    }
    for (int64_t c = 0; c < kCols; ++c) {
      // Saturated: the value asked for is beyond what the block can hold.
      const double d = scale_value(row.block_scale, q.block_scales[r * q.scale_stride() + c / row.block]);
      const double held = d * double{largest_of(row.element)} * double{q.outer_of(r)};
      const double value = std::fabs(double{x[static_cast<size_t>(r * kCols + c)]});
      saturated += value > held * (1 + 1e-6) ? 1 : 0;
    }
    const auto at = static_cast<size_t>(r * kCols);
    counted += count_saturated(q, r, std::span<const float>(x).subspan(at, kCols),
                               std::span<const float>(y).subspan(at, kCols));
  }
  const ScaleStats stats = scale_stats(q);
  EXPECT_EQ(stats.blocks, expected.blocks);
  EXPECT_EQ(stats.zero, expected.zero);
  EXPECT_EQ(stats.nan, expected.nan);
  EXPECT_EQ(counted, saturated);
}

TEST(CodeStats, AgreeWithBruteForce) {
  check({.format = FormatId::nvfp4, .outer = OuterScale::none});
  check({.format = FormatId::nvfp4, .outer = OuterScale::tensor});
  check({.format = FormatId::nvfp4, .outer = OuterScale::row});
  check({.format = FormatId::nvfp4, .outer = OuterScale::tensor, .blocks = BlockShape::tile});
  check({.format = FormatId::mxfp8});
  check({.format = FormatId::mxfp8, .blocks = BlockShape::tile});
  check({.format = FormatId::sim_e4m1});
  check({.format = FormatId::sim_e3m1_e8m0});
  check({.format = FormatId::sim_e2m4});
}

TEST(CodeStats, SeeZeroAndNanScalesAndSaturation) {
  QuantSpec spec{.format = FormatId::nvfp4};
  const Buffer memory(QTensor::bytes(spec, 1, 48));
  const QTensor q = QTensor::place(spec, 1, 48, memory.data());
  q.block_scales[0] = 0x38;
  q.block_scales[1] = 0x80;
  q.block_scales[2] = 0x7F;
  q.codes[0] = 0xF7;  // 6 and -6
  const ScaleStats stats = scale_stats(q);
  EXPECT_EQ(stats.blocks, 3);
  EXPECT_EQ(stats.zero, 1);
  EXPECT_EQ(stats.nan, 1);
  const std::vector<float> x = {6.5f, -6.0f}, decoded = {6.0f, -6.0f};
  EXPECT_EQ(count_saturated(q, 0, x, decoded), 1);
  const std::vector<float> infinite = {INFINITY, NAN};
  EXPECT_EQ(count_saturated(q, 0, infinite, decoded), 0);

  // ggml's scale bytes: 0x7F is 0, nothing is NaN, the top bit does not count.
  QTensor ggml = q;
  ggml.spec.convention = Convention::ggml;
  EXPECT_EQ(scale_stats(ggml).zero, 2);
  EXPECT_EQ(scale_stats(ggml).nan, 0);
}

TEST(CodeStats, CountBlocksOfTheSpecsSize) {
  const QuantSpec spec{.format = FormatId::sim_e2m2, .blocks = BlockShape::row, .block = 40};
  const Buffer memory(QTensor::bytes(spec, 3, 100));
  const QTensor q = QTensor::place(spec, 3, 100, memory.data());
  std::fill_n(q.block_scales, 3 * q.scale_stride(), uint8_t{0x38});
  EXPECT_EQ(scale_stats(q).blocks, 9);
}

}  // namespace
}  // namespace minite::ops
