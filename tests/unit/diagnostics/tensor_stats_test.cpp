// Statistics against sums by hand, on tensors with every special value.
#include "diagnostics/tensor_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/registry.h"
#include "core/memory.h"
#include "core/philox.h"
#include "ops/ops.h"
#include "support/expect_error.h"

namespace minite::diagnostics {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Context context(ThreadPool& pool) { return {&backend("ref"), &pool, nullptr, {}}; }

ValueStats of(std::vector<float> x, int threads = 1) {
  ThreadPool pool(threads);
  return measure(context(pool), TensorView(x.data(), 1, static_cast<int64_t>(x.size())));
}

std::vector<float> random_values(int64_t count, float shift = 0) {
  std::vector<float> x;
  for (int64_t i = 0; i < count; ++i)
    x.push_back(shift + Philox::unit(Philox::generate(3, static_cast<uint64_t>(i), 0)[0]) - 0.5f);
  return x;
}

TEST(TensorStats, ByHand) {
  const ValueStats s = of({1, -2, 0, 4, -0.0f, 0.5f});
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.zero, 2);
  EXPECT_EQ(s.min, -2);
  EXPECT_EQ(s.max, 4);
  EXPECT_EQ(s.amin, 0.5);
  EXPECT_EQ(s.amax(), 4);
  EXPECT_EQ(s.l1, 7.5);
  EXPECT_DOUBLE_EQ(s.l2(), std::sqrt(21.25));
  EXPECT_DOUBLE_EQ(s.mean, 3.5 / 6);
  EXPECT_DOUBLE_EQ(s.std(), std::sqrt(21.25 / 6 - s.mean * s.mean));
  EXPECT_EQ(s.dynamic_range(), 3);  // log2(4) - log2(0.5)
}

TEST(TensorStats, WhatIsNotFiniteIsCountedAndLeftOut) {
  const ValueStats s = of({NAN, 3, kInfinity, -5, -kInfinity, -NAN});
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.nan, 2);
  EXPECT_EQ(s.inf, 2);
  EXPECT_EQ(s.finite(), 2);
  EXPECT_EQ(s.mean, -1);
  EXPECT_EQ(s.std(), 4);
  EXPECT_EQ(s.amax(), 5);
  const ValueStats none = of({NAN, kInfinity});
  EXPECT_TRUE(std::isnan(none.amax()) && std::isnan(none.std()) && std::isnan(none.dynamic_range()));
}

TEST(TensorStats, EmptyOneElementAndAllZero) {
  EXPECT_EQ(of({}).count, 0);
  EXPECT_TRUE(std::isnan(of({}).amax()));
  const ValueStats one = of({-3});
  EXPECT_EQ(one.mean, -3);
  EXPECT_EQ(one.std(), 0);
  EXPECT_EQ(one.dynamic_range(), 0);
  const ValueStats zeros = of({0, -0.0f, 0});
  EXPECT_EQ(zeros.zero, 3);
  EXPECT_EQ(zeros.amax(), 0);
  EXPECT_EQ(zeros.dynamic_range(), 0);
}

TEST(TensorStats, StdDoesNotCancelBesideALargeMean) {
  // Values in 4096 +- 0.5: E[x^2] - E[x]^2 in FP32 would have no digit left.
  const std::vector<float> x = random_values(20000, 4096);
  double mean = 0, m2 = 0;
  for (const float v : x) mean += v;
  mean /= static_cast<double>(x.size());
  for (const float v : x) m2 += (v - mean) * (v - mean);
  const ValueStats s = of(x);
  EXPECT_NEAR(s.mean, mean, 1e-9);
  EXPECT_NEAR(s.std(), std::sqrt(m2 / static_cast<double>(x.size())), 1e-10);
}

TEST(TensorStats, ChunksMergeToWhatOneChunkGives) {
  std::vector<float> x = random_values(20000);
  for (size_t i = 0; i < x.size(); ++i) x[i] += 1e-3f * static_cast<float>(i);  // chunks of different mean
  x[7] = NAN, x[9000] = kInfinity;
  ThreadPool pool(1);
  const ValueStats one = of(x), many = measure(context(pool), TensorView(x.data(), 20000, 1));
  EXPECT_NEAR(many.std(), one.std(), 1e-12 * one.std());
  EXPECT_NEAR(many.mean, one.mean, 1e-12 * one.mean);
  EXPECT_NEAR(many.l1, one.l1, 1e-12 * one.l1);
  EXPECT_NEAR(many.l2(), one.l2(), 1e-12 * one.l2());
  EXPECT_EQ(many.finite(), 19998);
  EXPECT_EQ(many.max, one.max);
  EXPECT_EQ(many.amin, one.amin);
}

TEST(TensorStats, AnyNumberOfThreadsAndAnyStrideGiveTheSameBits) {
  constexpr int64_t kRows = 301, kCols = 177, kStride = 190;
  const std::vector<float> x = random_values(kRows * kCols);
  std::vector<float> apart(static_cast<size_t>(kRows * kStride), NAN);
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(x.data() + r * kCols, kCols, apart.data() + r * kStride);
  ThreadPool one(1), three(3);
  const TensorView dense(const_cast<float*>(x.data()), kRows, kCols);
  const ValueStats a = measure(context(one), dense), b = measure(context(three), dense);
  const ValueStats c = measure(context(three), {apart.data(), DType::f32, kRows, kCols, kStride});
  for (const ValueStats& other : {b, c}) {
    EXPECT_EQ(a.mean, other.mean);
    EXPECT_EQ(a.m2, other.m2);
    EXPECT_EQ(a.l1, other.l1);
    EXPECT_EQ(a.l2(), other.l2());
    EXPECT_EQ(a.amin, other.amin);
    EXPECT_EQ(other.count, kRows * kCols);
  }
}

TEST(TensorStats, Bf16AndRefusedDtypes) {
  std::vector<bf16> x = {bf16(1.5f), bf16(-2.0f)};
  ThreadPool pool(1);
  EXPECT_EQ(measure(context(pool), TensorView(x.data(), 2, 1)).mean, -0.25);
  std::vector<double> wide = {1};
  test_support::expect_error(ErrorCode::unsupported, {"a tensor of f64"},
                             [&] { (void)measure(context(pool), TensorView(wide.data(), 1, 1)); });
}

/// Codes of `x` [rows, cols] and their statistics.
CodeStats coded(const QuantSpec& spec, std::vector<float> x, int64_t rows, int threads = 1,
                const std::function<void(const QTensor&)>& damage = {}) {
  const int64_t cols = static_cast<int64_t>(x.size()) / rows;
  ThreadPool pool(threads);
  const Buffer memory(QTensor::bytes(spec, rows, cols));
  const QTensor q = QTensor::place(spec, rows, cols, memory.data());
  const TensorView view(x.data(), rows, cols);
  ops::quantize(context(pool), {view, Orientation::rows, q, {}});
  if (damage) damage(q);
  std::vector<float> scratch;
  return measure_codes(context(pool), q, view, scratch);
}

TEST(CodeStatistics, UnderflowSaturationAndZeroBlocksByHand) {
  const QuantSpec spec{.format = FormatId::nvfp4};
  // Block 0: amax 6 gives scale 1; 0.2 rounds to 0, -0.0 and 0 are no underflow. Block 1: all zero.
  std::vector<float> x(32, 0.0f);
  x[0] = 6, x[1] = 0.2f, x[2] = -0.2f, x[3] = -0.0f, x[4] = 1;
  const CodeStats s = coded(spec, x, 1);
  EXPECT_EQ(s.loss.nonzero, 4);
  EXPECT_EQ(s.loss.underflow, 2);
  EXPECT_EQ(s.loss.saturated, 0);
  EXPECT_EQ(s.blocks, 2);
  EXPECT_EQ(s.zero_scales, 1);
  EXPECT_EQ(s.histogram[0x38], 1);
  EXPECT_EQ(s.histogram[0], 1);
  EXPECT_NEAR(s.loss.error.relative_l2(), std::sqrt(2 * 0.04 / (36 + 1 + 2 * 0.04)), 1e-8);
  // Half the scale: 6 asks for 12, two and a half steps above the largest value.
  const CodeStats half = coded(spec, x, 1, 1, [](const QTensor& q) { q.block_scales[0] = 0x30; });
  EXPECT_EQ(half.loss.saturated, 1);
  EXPECT_EQ(half.loss.overflow, 1);
  const CodeStats nan = coded(spec, x, 1, 1, [](const QTensor& q) { q.block_scales[1] = 0x7F; });
  EXPECT_EQ(nan.nan_scales, 1);
  EXPECT_TRUE(std::isnan(nan.loss.error.relative_l2()));
}

TEST(CodeStatistics, RoundingOfAScaleSaturatesAndNeverOverflows) {
  const CodeStats s =
      coded({.format = FormatId::nvfp4, .outer = OuterScale::row}, random_values(64 * 96), 64);
  EXPECT_GT(s.loss.saturated, 0);
  EXPECT_EQ(s.loss.overflow, 0);
  EXPECT_EQ(s.blocks, 64 * 6);
  // The floor rule of MX overflows where the amax lies above 7 of its power of two.
  const CodeStats floor =
      coded({.format = FormatId::mxfp4, .convention = Convention::floor}, random_values(64 * 96), 64);
  EXPECT_GT(floor.loss.overflow, 0);
  EXPECT_GT(floor.loss.saturated, floor.loss.overflow);
}

TEST(CodeStatistics, ATileCountsOnceAndThreadsChangeNothing) {
  const QuantSpec tile{.format = FormatId::nvfp4, .outer = OuterScale::tensor, .blocks = BlockShape::tile};
  EXPECT_EQ(coded(tile, random_values(40 * 48), 40).blocks, 9);
  const QuantSpec spec{.format = FormatId::mxfp8};
  const CodeStats a = coded(spec, random_values(300 * 128), 300, 1),
                  b = coded(spec, random_values(300 * 128), 300, 3);
  EXPECT_EQ(a.loss.error.noise, b.loss.error.noise);
  EXPECT_EQ(a.loss.error.signal, b.loss.error.signal);
  EXPECT_EQ(a.loss.underflow, b.loss.underflow);
  EXPECT_EQ(a.histogram, b.histogram);
}

TEST(CodeStatistics, RowsOfHalfABytesCodesAndRowsApartGiveTheSameCounts) {
  // 33 nibbles end in half a byte; the values of one of both are apart in memory.
  constexpr int64_t kRows = 40, kCols = 33, kStride = 48;
  const QuantSpec spec{.format = FormatId::nvfp4, .outer = OuterScale::row};
  std::vector<float> x = random_values(kRows * kCols), apart(static_cast<size_t>(kRows * kStride), NAN);
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(x.data() + r * kCols, kCols, apart.data() + r * kStride);
  ThreadPool pool(1);
  const Context ctx = context(pool);
  const Buffer memory(QTensor::bytes(spec, kRows, kCols));
  const QTensor q = QTensor::place(spec, kRows, kCols, memory.data());
  ops::quantize(ctx, {TensorView(x.data(), kRows, kCols), Orientation::rows, q, {}});
  std::vector<float> scratch, decoded(x.size());
  ops::dequantize(ctx, {q, TensorView(decoded.data(), kRows, kCols)});
  int64_t saturated = 0, underflow = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t r = i / kCols, c = i % kCols;
    const int code = q.codes[r * static_cast<size_t>(q.code_stride()) + c / 2] >> (c % 2 * 4) & 7;
    saturated += code == 7 && std::fabs(decoded[i]) < std::fabs(x[i]) ? 1 : 0;
    underflow += x[i] != 0 && decoded[i] == 0 ? 1 : 0;
  }
  EXPECT_GT(saturated, 0);
  const TensorView dense(x.data(), kRows, kCols), wide(apart.data(), DType::f32, kRows, kCols, kStride);
  const CodeStats a = measure_codes(ctx, q, dense, scratch), b = measure_codes(ctx, q, wide, scratch);
  for (const CodeStats& s : {a, b}) {
    EXPECT_EQ(s.loss.saturated, saturated);
    EXPECT_EQ(s.loss.underflow, underflow);
    EXPECT_EQ(s.loss.error.noise, a.loss.error.noise);
  }
}

TEST(CodeStatistics, ANanInTheValuesIsLeftOut) {
  std::vector<float> x = random_values(32);
  x[3] = NAN;
  const CodeStats s = coded({.format = FormatId::mxfp8}, x, 1);
  EXPECT_EQ(s.loss.error.nonfinite, 1);
  EXPECT_EQ(s.loss.nonzero, 31);
}

}  // namespace
}  // namespace minite::diagnostics
