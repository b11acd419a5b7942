// The table of conventions, and the arithmetic that their rules share.
#include "minite/convention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "formats/mx_rules.h"
#include "formats/nvfp4_rules.h"
#include "formats/peer_math.h"
#include "minite/error.h"
#include "support/expect_error.h"

namespace minite {
namespace {

TEST(Conventions, RowsAreInOrderAndPairsAreUnique) {
  std::set<std::pair<Convention, FormatId>> pairs;
  Convention last = Convention::te;
  for (const ConventionRow& row : conventions()) {
    EXPECT_GE(row.id, last);
    last = row.id;
    EXPECT_EQ(parse_convention(to_string(row.id)), row.id);
    for (const std::string_view text :
         {row.scale, row.code, row.decode, row.epilogue, row.exception, row.nonfinite, row.peer})
      EXPECT_FALSE(text.empty()) << to_string(row.id);
    EXPECT_EQ(row.global == StoredGlobal::none, !row.outers.has(OuterScale::tensor)) << to_string(row.id);
    for (const Format& each : formats()) {
      if (!row.formats.has(each.id)) continue;
      EXPECT_TRUE(pairs.emplace(row.id, each.id).second) << to_string(row.id) << " " << each.name;
      EXPECT_EQ(find_convention(row.id, each.id), &row);
    }
  }
  // Every convention has a row, and every format with blocks has the default convention.
  std::set<Convention> ids;
  for (const auto& [id, format] : pairs) ids.insert(id);
  EXPECT_EQ(ids.size(), static_cast<size_t>(Convention::microxcaling) + 1);
  for (const Format& each : formats())
    EXPECT_EQ(find_convention(Convention::te, each.id) != nullptr, each.block != 0) << each.name;
}

/// Every row that is not te's own code has its steps.
TEST(Conventions, EveryRowHasRules) {
  for (const ConventionRow& row : conventions()) {
    if (row.formats.has(FormatId::nvfp4) && row.id != Convention::te) {
      EXPECT_EQ(nvfp4_rule(row.id).id, row.id);
    }
    if (row.formats.has(FormatId::mxfp4)) {
      EXPECT_EQ(mx_rule(row.id).id, row.id);
    }
  }
}

TEST(Conventions, SpecsPrintTheirConvention) {
  EXPECT_EQ(to_string(QuantSpec{FormatId::nvfp4, OuterScale::tensor, Convention::modelopt}),
            "nvfp4[modelopt,outer=tensor]");
  EXPECT_EQ(to_string(QuantSpec{.format = FormatId::mxfp4, .convention = Convention::floor}), "mxfp4[floor]");
  EXPECT_EQ(to_string(QuantSpec{.format = FormatId::sim_e2m2, .block = 32}), "sim_e2m2[block=32]");
}

TEST(Conventions, WhatAProjectDoesNotHaveIsRefused) {
  using test_support::expect_error;
  const auto refuse = [](const QuantSpec& spec, const std::string& part) {
    expect_error(ErrorCode::invalid_argument, {part}, [&] { spec.validate(); });
  };
  refuse({FormatId::mxfp8, OuterScale::none, Convention::vllm}, "convention vllm does not know mxfp8");
  refuse({FormatId::nvfp4, OuterScale::row, Convention::modelopt}, "convention modelopt has no outer=row");
  refuse({FormatId::nvfp4, OuterScale::tensor, Convention::ggml}, "convention ggml has no outer=tensor");
  refuse({.format = FormatId::nvfp4,
          .outer = OuterScale::tensor,
          .convention = Convention::torchao,
          .search = ScaleSearch::four_six_mse},
         "convention torchao has no 4over6-mse");
  refuse({.format = FormatId::nvfp4,
          .outer = OuterScale::tensor,
          .convention = Convention::vllm,
          .blocks = BlockShape::tile},
         "convention vllm has no 2D blocks");
  refuse({.format = FormatId::nvfp4,
          .outer = OuterScale::tensor,
          .convention = Convention::vllm,
          .rounding = Rounding::stochastic},
         "belong to convention te");
  refuse({.format = FormatId::nvfp4,
          .outer = OuterScale::tensor,
          .convention = Convention::modelopt,
          .scale_max = 256},
         "scale_max=256");
  refuse({.format = FormatId::nvfp4, .block = 32}, "only simulated formats choose their block");
  refuse({.format = FormatId::sim_e2m2, .block = 12}, "multiples of 8");
  refuse({.format = FormatId::sim_e2m2, .block = 136}, "block=136");
  expect_error(ErrorCode::not_found, {"modelopt"}, [] { (void)parse_convention("modelop"); });
}

/// Against the C library's FP64 logarithm rounded once: around every power of two, where the FP32 logarithm
/// can reach the integer, and at subnormals.
TEST(PeerMath, RoundedLogarithmsReachTheIntegersThatFp32Does) {
  int reached = 0;
  for (int k = -148; k <= 127; ++k) {
    const uint32_t at = std::bit_cast<uint32_t>(std::ldexp(1.0f, k));
    for (int step = -120; step <= 120; ++step) {
      const float x = std::bit_cast<float>(at + static_cast<uint32_t>(step));
      if (!(x > 0.0f) || std::isinf(x) || static_cast<int64_t>(at) + step <= 0) continue;
      const auto log = static_cast<float>(std::log2(static_cast<double>(x)));
      const peer::Log2 got = peer::rounded_log2(x);
      EXPECT_EQ(got.floor, static_cast<int>(std::floor(log))) << k << " " << step;
      EXPECT_EQ(got.ceil, static_cast<int>(std::ceil(log))) << k << " " << step;
      reached += step != 0 && got.floor == got.ceil ? 1 : 0;
    }
  }
  EXPECT_GT(reached, 1000);
}

TEST(PeerMath, NansAreThoseOfX86) {
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  const float inf = std::numeric_limits<float>::infinity();
  const float a = std::bit_cast<float>(0x7F800001u), b = std::bit_cast<float>(0xFFC00007u);
  EXPECT_EQ(bits(peer::div(0.0f, 0.0f)), peer::kInvalid);
  EXPECT_EQ(bits(peer::mul(0.0f, inf)), peer::kInvalid);
  EXPECT_EQ(bits(peer::mul(a, b)), 0x7FC00001u);
  EXPECT_EQ(bits(peer::mul(1.0f, b)), 0xFFC00007u);
  EXPECT_EQ(peer::mul(3.0f, 2.0f), 6.0f);
}

}  // namespace
}  // namespace minite
