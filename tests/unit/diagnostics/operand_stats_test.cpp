// Operands by columns against an explicit transpose, rotated by the matrix of the formula.
#include "diagnostics/operand_stats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "backends/registry.h"
#include "core/memory.h"
#include "core/philox.h"
#include "ops/ops.h"
#include "support/expect_error.h"

namespace minite::diagnostics {
namespace {

std::vector<bf16> random_values(int64_t count) {
  std::vector<bf16> x;
  for (int64_t i = 0; i < count; ++i) {
    const auto word = Philox::generate(4, static_cast<uint64_t>(i), 0);
    const float unit = Philox::unit(word[0]) - 0.5f;
    x.emplace_back(word[1] % 9 == 0 ? 0.0f : std::ldexp(unit, -static_cast<int>(word[2] % 6)));
  }
  return x;
}

/// x^T [cols, stored], zeros past the rows; with a rotation each 16 elements times the Hadamard matrix, whose
/// element is -1 to the number of ones that both indices share, by signs 0xD7E8 and 1/4.
std::vector<float> turned(const std::vector<bf16>& x, int64_t rows, int64_t cols, const QuantSpec& spec) {
  const int64_t stored = spec.stored_cols(rows);
  std::vector<float> t(static_cast<size_t>(cols * stored), 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) t[c * stored + r] = x[r * cols + c];
  }
  if (spec.rotation == Rotation::none) return t;
  std::vector<float> z(t.size());
  for (size_t i = 0; i < t.size(); ++i) {
    double sum = 0;
    for (uint32_t j = 0; j < 16; ++j) {
      const bool minus = (std::popcount(static_cast<uint32_t>(i % 16) & j) + (0xD7E8 >> j & 1)) % 2 != 0;
      sum += (minus ? -1.0 : 1.0) * t[i / 16 * 16 + j];
    }
    z[i] = bf16(static_cast<float>(sum / 4));
  }
  return z;
}

struct Fixture {
  ThreadPool pool{1};
  Context ctx{&backend("ref"), &pool, nullptr, {}};
};

void check(int64_t rows, int64_t cols, QuantSpec spec) {
  SCOPED_TRACE(to_string(spec));
  Fixture f;
  std::vector<bf16> x = random_values(rows * cols);
  const TensorView view(x.data(), rows, cols);
  const int64_t stored = spec.stored_cols(rows);
  const Buffer memory(QTensor::bytes(spec, cols, stored));
  const QTensor q = QTensor::place(spec, cols, stored, memory.data());
  ops::quantize(f.ctx, {view, Orientation::columns, q, {7, 1}});
  OperandScratch scratch;
  const OperandStats got = measure_columns(f.ctx, view, q, scratch);

  std::vector<float> z = turned(x, rows, cols, spec), decoded(z.size());
  std::vector<float> held;
  const TensorView values(z.data(), cols, stored);
  const ValueStats want = measure(f.ctx, values);
  const CodeStats codes = measure_codes(f.ctx, q, values, held);
  EXPECT_EQ(got.values.count, cols * stored);
  EXPECT_EQ(got.values.zero, want.zero);
  EXPECT_EQ(got.values.min, want.min);
  EXPECT_EQ(got.values.max, want.max);
  EXPECT_EQ(got.values.amin, want.amin);
  EXPECT_NEAR(got.values.m2, want.m2, 1e-12 * want.m2);
  EXPECT_EQ(got.codes.loss.underflow, codes.loss.underflow);
  EXPECT_EQ(got.codes.loss.saturated, codes.loss.saturated);
  EXPECT_EQ(got.codes.histogram, codes.histogram);
  EXPECT_EQ(got.codes.blocks, codes.blocks);
  EXPECT_NEAR(got.codes.loss.error.noise, codes.loss.error.noise, 1e-12 * codes.loss.error.noise);
  // Codes lose a tenth of what they hold: of another matrix they would lose all of it.
  EXPECT_LT(got.codes.loss.error.relative_l2(), spec.rounding == Rounding::stochastic ? 0.25 : 0.15);
}

TEST(OperandStats, AreThoseOfTheTransposeAsTheQuantizerSawIt) {
  const QuantSpec row{.format = FormatId::nvfp4, .outer = OuterScale::row};
  const QuantSpec tile{.format = FormatId::nvfp4, .outer = OuterScale::tensor, .blocks = BlockShape::tile};
  const QuantSpec rotated{
      .format = FormatId::nvfp4, .outer = OuterScale::tensor, .rotation = Rotation::hadamard};
  QuantSpec random = rotated;
  random.rounding = Rounding::stochastic;
  check(48, 33, row);
  check(48, 64, tile);
  check(64, 20, {.format = FormatId::mxfp8});
  check(48, 20, rotated);
  check(41, 20, rotated);  // filled up to 48
  check(41, 20, random);
  check(320, 400, tile);     // more than a piece, in whole tiles
  check(300, 400, rotated);  // 304 a row
}

TEST(OperandStats, RefuseWhatIsNotTheirs) {
  Fixture f;
  std::vector<float> x(64, 1.0f);
  const QuantSpec spec{.format = FormatId::mxfp8};
  const Buffer memory(QTensor::bytes(spec, 2, 32));
  const QTensor q = QTensor::place(spec, 2, 32, memory.data());
  OperandScratch scratch;
  test_support::expect_error(ErrorCode::invalid_argument, {"codes are 2x32", "32x2"},
                             [&] { (void)measure_columns(f.ctx, TensorView(x.data(), 2, 32), q, scratch); });
  std::vector<double> wide(64, 1.0);
  test_support::expect_error(ErrorCode::unsupported, {"f64"}, [&] {
    (void)measure_columns(f.ctx, TensorView(wide.data(), 32, 2), q, scratch);
  });
}

}  // namespace
}  // namespace minite::diagnostics
