// The loops over chunks: every instruction set gives the bits of the formula, lane by lane, and what they
// skip is counted elsewhere.
#include "diagnostics/chunk_stats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "backends/registry.h"
#include "core/cpu.h"
#include "core/memory.h"
#include "core/philox.h"
#include "formats/element_codes.h"
#include "ops/code_stats.h"
#include "ops/ops.h"

namespace minite::diagnostics {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Values of many sizes, some 0 or -0.
std::vector<float> values(size_t n) {
  std::vector<float> x;
  for (size_t i = 0; i < n; ++i) {
    const auto word = Philox::generate(11, i, 0);
    const float unit = Philox::unit(word[0]) - 0.5f;
    x.push_back(word[1] % 7 == 0 ? std::copysign(0.0f, unit)
                                 : std::ldexp(unit, static_cast<int>(word[2] % 12) - 6));
  }
  return x;
}
std::vector<bf16> narrowed(const std::vector<float>& x) {
  std::vector<bf16> all;
  for (const float v : x) all.push_back(bf16(v));
  return all;
}

/// The formula of ValueSums, one lane after the other.
ValueSums by_hand(const std::vector<float>& x) {
  double shifted[8] = {}, squares[8] = {}, absolute[8] = {};
  ValueSums s{0, 0, 0, 0, kInfinity, -kInfinity, kInfinity};
  for (size_t i = 0; i < (x.size() + 7) / 8 * 8; ++i) {
    const float v = i < x.size() ? x[i] : x[0];
    const double d = double{v} - double{x[0]};
    shifted[i % 8] += d, squares[i % 8] += d * d, absolute[i % 8] += std::fabs(double{v});
    s.zero += v == 0 ? 1 : 0;
    s.min = std::min(s.min, v), s.max = std::max(s.max, v);
    if (v != 0) s.amin = std::min(s.amin, std::fabs(v));
  }
  const auto sum = [](const double* a) {
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
  };
  s.shifted = sum(shifted), s.squares = sum(squares), s.absolute = sum(absolute);
  return s;
}

void expect_equal(const ValueSums& a, const ValueSums& b) {
  EXPECT_EQ(a.shifted, b.shifted);
  EXPECT_EQ(a.squares, b.squares);
  EXPECT_EQ(a.absolute, b.absolute);
  EXPECT_EQ(a.zero, b.zero);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.max, b.max);
  EXPECT_EQ(a.amin, b.amin);
}

TEST(ChunkLoops, EveryInstructionSetSumsTheLanesOfTheFormula) {
  for (const size_t n : {1u, 7u, 8u, 9u, 100u, 4096u, 4103u}) {
    const std::vector<bf16> narrow = narrowed(values(n));
    const std::vector<float> x(narrow.begin(), narrow.end());
    const ValueSums expected = by_hand(x);
    ValueSums sums{};
    baseline::sum_values(x.data(), n, sums);
    expect_equal(sums, expected);
    baseline::sum_values(narrow.data(), n, sums);
    expect_equal(sums, expected);
    if (!cpu_info().avx2) continue;
    avx2::sum_values(x.data(), n, sums);
    expect_equal(sums, expected);
    avx2::sum_values(narrow.data(), n, sums);
    expect_equal(sums, expected);
  }
}

/// Codes of `x` as rows of `cols`, with what they decode to.
struct Coded {
  Buffer memory;
  QTensor q;
  std::vector<float> decoded;
  Coded(const QuantSpec& spec, std::vector<float>& x, int64_t cols)
      : memory(QTensor::bytes(spec, static_cast<int64_t>(x.size()) / cols, cols)),
        q(QTensor::place(spec, static_cast<int64_t>(x.size()) / cols, cols, memory.data())),
        decoded(x.size()) {
    ThreadPool pool(1);
    const Context ctx{&backend("ref"), &pool, nullptr, {}};
    ops::quantize(ctx, {TensorView(x.data(), q.rows, cols), Orientation::rows, q, {}});
    ops::dequantize(ctx, {q, TensorView(decoded.data(), q.rows, cols)});
  }
  [[nodiscard]] ChunkCodes codes() const {
    const Format& row = format(q.spec.format);
    return chunk_codes(q.codes, row.element, row.bits == 4);
  }
};

TEST(ChunkLoops, CodesAreCountedAsTheOpCountsThem) {
  for (const FormatId id : {FormatId::nvfp4, FormatId::mxfp8, FormatId::mxfp8_e5m2, FormatId::sim_e2m3}) {
    for (const int64_t cols : {32, 96, 4096}) {
      std::vector<bf16> narrow = narrowed(values(static_cast<size_t>(cols)));
      std::vector<float> x(narrow.begin(), narrow.end());
      const Coded coded({.format = id}, x, cols);
      int64_t underflow = 0, nonzero = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        nonzero += x[i] != 0 ? 1 : 0;
        underflow += x[i] != 0 && coded.decoded[i] == 0 ? 1 : 0;
      }
      const ops::Clipped clipped = ops::count_clipped(coded.q, 0, x, coded.decoded);
      const size_t n = x.size();
      LossSums of_f32{}, of_bf16{}, wide{};
      baseline::sum_losses(coded.codes(), x.data(), coded.decoded.data(), n, of_f32);
      baseline::sum_losses(coded.codes(), narrow.data(), coded.decoded.data(), n, of_bf16);
      EXPECT_EQ(of_f32.nonzero, nonzero);
      EXPECT_EQ(of_f32.underflow, underflow);
      EXPECT_EQ(of_f32.saturated, clipped.saturated) << format(id).name << " " << cols;
      EXPECT_TRUE(of_f32.beyond || clipped.overflow == 0);
      EXPECT_EQ(of_f32.noise, of_bf16.noise);
      EXPECT_EQ(of_f32.saturated, of_bf16.saturated);
      if (!cpu_info().avx2) continue;
      avx2::sum_losses(coded.codes(), narrow.data(), coded.decoded.data(), n, wide);
      EXPECT_EQ(wide.signal, of_f32.signal);
      EXPECT_EQ(wide.noise, of_f32.noise);
      EXPECT_EQ(wide.underflow, underflow);
      EXPECT_EQ(wide.saturated, clipped.saturated);
      EXPECT_EQ(wide.beyond, of_f32.beyond);
    }
  }
}

TEST(ChunkLoops, WhatMayOverflowIsNeverMissedAndSeldomGuessed) {
  const QuantSpec spec{.format = FormatId::nvfp4};
  const ElementCodes element = element_codes(format(FormatId::nvfp4).element);
  // The largest code decodes to 6; x walks through the bound of 7, one float after the other.
  std::vector<float> x(16, 0.0f);
  x[0] = 6;
  Coded coded(spec, x, 16);
  x[0] = element.bound;
  for (int i = 0; i < 8; ++i) x[0] = std::nextafter(x[0], 0.0f);
  for (int i = 0; i < 16; ++i, x[0] = std::nextafter(x[0], kInfinity)) {
    const auto loss = finite_codes(coded.codes(), std::span<const float>(x), coded.decoded);
    const int64_t exact = ops::count_clipped(coded.q, 0, x, coded.decoded).overflow;
    EXPECT_EQ(exact, x[0] > element.bound ? 1 : 0) << x[0];
    EXPECT_TRUE(loss->may_overflow || exact == 0) << x[0];
    EXPECT_EQ(loss->loss.saturated, 1);
  }
  x[0] = 6.9f;
  EXPECT_FALSE(finite_codes(coded.codes(), std::span<const float>(x), coded.decoded)->may_overflow);
  // A scale of 0 saturates and does not overflow.
  coded.decoded.assign(16, 0.0f);
  const auto zero = finite_codes(coded.codes(), std::span<const float>(x), coded.decoded);
  EXPECT_EQ(zero->loss.saturated, 1);
  EXPECT_FALSE(zero->may_overflow);
}

TEST(ChunkLoops, AnythingThatIsNotFiniteIsLeftToTheSlowWay) {
  for (const float bad : {NAN, kInfinity, -kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{3}, size_t{31}, size_t{32}}) {
      std::vector<float> x = values(33);
      std::vector<float> decoded = x;
      const std::vector<uint8_t> codes(x.size(), 0);
      const ChunkCodes c = chunk_codes(codes.data(), format(FormatId::mxfp8).element, false);
      EXPECT_TRUE(finite_values(std::span<const float>(x)));
      EXPECT_TRUE(finite_codes(c, std::span<const float>(x), decoded));
      decoded[at] = bad;
      EXPECT_FALSE(finite_codes(c, std::span<const float>(x), decoded));
      decoded[at] = x[at], x[at] = bad;
      EXPECT_FALSE(finite_codes(c, std::span<const float>(x), decoded));
      EXPECT_FALSE(finite_values(std::span<const float>(x)));
    }
  }
  const std::vector<float> huge(9, std::numeric_limits<float>::max());
  EXPECT_TRUE(finite_values(std::span<const float>(huge)));
}

}  // namespace
}  // namespace minite::diagnostics
