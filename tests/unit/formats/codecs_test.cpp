// Codecs against independent arithmetic: decoding by ldexp, encoding by a brute-force search.
#include "formats/codecs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "minite/tensor.h"

namespace minite {
namespace {

/// What a floating point format is, said in numbers.
struct Spec {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  int largest_code;  ///< magnitude code of the largest finite value
};
constexpr Spec kE2M1 = {2, 1, 1, 0x7};
constexpr Spec kE4M3 = {4, 3, 7, 0x7E};
constexpr Spec kE5M2 = {5, 2, 15, 0x7B};

/// Value of a finite magnitude code by the definition of the format.
double value_of(const Spec& spec, int code) {
  const int mantissa = code & ((1 << spec.mantissa_bits) - 1);
  const int exponent = code >> spec.mantissa_bits;
  if (exponent == 0) return std::ldexp(mantissa, 1 - spec.bias - spec.mantissa_bits);
  return std::ldexp(mantissa + (1 << spec.mantissa_bits), exponent - spec.bias - spec.mantissa_bits);
}

/// Magnitude code nearest to `magnitude`, ties to the even code, saturating; by looking at every code.
int nearest_code(const std::vector<double>& values, double magnitude) {
  magnitude = std::min(magnitude, values.back());
  int best = 0;
  for (int code = 1; code < static_cast<int>(values.size()); ++code) {
    const double old_distance = std::fabs(magnitude - values[static_cast<size_t>(best)]);
    const double distance = std::fabs(magnitude - values[static_cast<size_t>(code)]);
    if (distance < old_distance || (distance == old_distance && code % 2 == 0)) best = code;
  }
  return best;
}

std::vector<double> finite_values(const Spec& spec) {
  std::vector<double> values;
  for (int code = 0; code <= spec.largest_code; ++code) values.push_back(value_of(spec, code));
  return values;
}

/// FP32 inputs that matter: every BF16 pattern, and the FP32 neighbours of every midpoint and value.
std::vector<float> inputs(const Spec& spec) {
  std::vector<float> result;
  for (int bits = 0; bits < 65536; ++bits) result.push_back(bf16::from_bits(static_cast<uint16_t>(bits)));
  const std::vector<double> values = finite_values(spec);
  const auto add_around = [&](double centre) {
    const auto x = static_cast<float>(centre);
    for (const float y : {std::nextafter(x, 0.0f), x, std::nextafter(x, INFINITY)}) {
      result.push_back(y);
      result.push_back(-y);
    }
  };
  for (size_t i = 0; i < values.size(); ++i) {
    add_around(values[i]);
    add_around(i + 1 < values.size() ? (values[i] + values[i + 1]) / 2 : 1.5 * values[i]);
  }
  return result;
}

template <class Codec>
void expect_decodes(const Spec& spec) {
  const int sign = 1 << (spec.exponent_bits + spec.mantissa_bits);
  for (int code = 0; code <= spec.largest_code; ++code) {
    const double expected = value_of(spec, code);
    const float plus = Codec::decode(static_cast<uint8_t>(code));
    const float minus = Codec::decode(static_cast<uint8_t>(code | sign));
    EXPECT_EQ(plus, expected) << "code " << code;
    EXPECT_FALSE(std::signbit(plus)) << "code " << code;
    EXPECT_EQ(minus, -expected) << "code " << code;
    EXPECT_TRUE(std::signbit(minus)) << "code " << code;
  }
  EXPECT_EQ(value_of(spec, spec.largest_code), Codec::kMax);
}

template <class Codec>
void expect_round_trips(const Spec& spec) {
  for (int code = 0; code <= spec.largest_code; ++code) {
    EXPECT_EQ(Codec::encode(Codec::decode(static_cast<uint8_t>(code))), code);
  }
}

TEST(Codecs, E2M1DecodesByDefinition) { expect_decodes<E2M1>(kE2M1); }
TEST(Codecs, E4M3DecodesByDefinition) { expect_decodes<E4M3>(kE4M3); }
TEST(Codecs, E5M2DecodesByDefinition) { expect_decodes<E5M2>(kE5M2); }

/// Calls body(codec, spec) for every element of the simulated formats.
template <class Body>
void for_each_sim(const Body& body) {
  const auto one = [&]<int kExponent, int kMantissa>(ExMy<kExponent, kMantissa> codec) {
    body(codec, Spec{kExponent, kMantissa, (1 << (kExponent - 1)) - 1, (1 << (kExponent + kMantissa)) - 1});
  };
  one(ExMy<2, 1>{});
  one(ExMy<3, 1>{});
  one(ExMy<4, 1>{});
  one(ExMy<5, 1>{});
  one(ExMy<2, 2>{});
  one(ExMy<2, 3>{});
  one(ExMy<2, 4>{});
}

TEST(Codecs, SimulatedElementsDecodeByDefinition) {
  for_each_sim([](auto codec, const Spec& spec) {
    using Codec = decltype(codec);
    for (int code = 0; code <= spec.largest_code; ++code) {
      EXPECT_EQ(Codec::decode(static_cast<uint8_t>(code)), value_of(spec, code));
      EXPECT_EQ(Codec::decode(static_cast<uint8_t>(code | 0x80)), -value_of(spec, code));
    }
    EXPECT_EQ(Codec::kMax, value_of(spec, spec.largest_code));
    for (int code = spec.largest_code + 1; code < 0x80; ++code)
      EXPECT_TRUE(std::isnan(Codec::decode(static_cast<uint8_t>(code)))) << code;
  });
}

TEST(Codecs, SimulatedElementsEncodeEveryBf16PatternToTheNearestCode) {
  for_each_sim([](auto codec, const Spec& spec) {
    using Codec = decltype(codec);
    const std::vector<double> values = finite_values(spec);
    for (const float x : inputs(spec)) {
      const int sign = std::signbit(x) ? 0x80 : 0;
      const int expected = std::isnan(x) ? 0x7F : sign | nearest_code(values, std::fabs(x));
      ASSERT_EQ(Codec::encode(x), expected) << std::hexfloat << x;
    }
  });
}

/// Every element has the two neighbours of its value and no other, in proportion to the distance.
TEST(Codecs, StochasticRoundingMovesToANeighbourAndKeepsTheMean) {
  const std::vector<double> grid = finite_values(kE2M1);
  for (int i = -700; i <= 700; ++i) {
    const float x = static_cast<float>(i) * 0.01f;
    const double m = std::min(6.0, std::fabs(static_cast<double>(x)));
    const auto above = std::lower_bound(grid.begin(), grid.end(), m);
    const double up = *above, down = *above == m ? m : *(above - 1);
    double sum = 0;
    int previous = 0;
    for (uint32_t u = 0; u < 256; ++u) {
      const uint8_t code = E2M1::encode_stochastic(x, u);
      const double value = std::fabs(static_cast<double>(E2M1::decode(code)));
      ASSERT_TRUE(value == down || value == up) << x << " " << u << " " << value;
      ASSERT_GE(code & 7, previous) << "more noise never rounds lower";
      if (x < 0) {
        ASSERT_EQ(code & 8, 8);
      }
      previous = code & 7;
      sum += value;
    }
    EXPECT_NEAR(sum / 256, m, (up - down) / 256 + 1e-6) << x;
  }
  EXPECT_EQ(E2M1::encode_stochastic(std::numeric_limits<float>::quiet_NaN(), 255), 0);
  EXPECT_EQ(E2M1::encode_stochastic(std::numeric_limits<float>::infinity(), 0), 7);
}

TEST(Codecs, FiniteValuesRoundTrip) {
  expect_round_trips<E2M1>(kE2M1);
  expect_round_trips<E4M3>(kE4M3);
  expect_round_trips<E5M2>(kE5M2);
}

TEST(Codecs, SpecialCodesDecode) {
  for (const int code : {0x7F, 0xFF}) EXPECT_TRUE(std::isnan(E4M3::decode(static_cast<uint8_t>(code))));
  EXPECT_EQ(E5M2::decode(0x7C), std::numeric_limits<float>::infinity());
  EXPECT_EQ(E5M2::decode(0xFC), -std::numeric_limits<float>::infinity());
  for (const int code : {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}) {
    EXPECT_TRUE(std::isnan(E5M2::decode(static_cast<uint8_t>(code)))) << code;
  }
}

TEST(Codecs, E2M1EncodesEveryBf16PatternToTheNearestCode) {
  const std::vector<double> values = finite_values(kE2M1);
  for (const float x : inputs(kE2M1)) {
    int expected = 0;
    if (!std::isnan(x)) {
      // The sign of a zero is dropped, that of a small value is not.
      expected = nearest_code(values, std::fabs(x)) | (x < 0 ? 8 : 0);
    }
    ASSERT_EQ(E2M1::encode(x), expected) << std::hexfloat << x;
  }
}

template <class Codec>
void expect_encodes_8_bits(const Spec& spec) {
  const std::vector<double> values = finite_values(spec);
  for (const float x : inputs(spec)) {
    const int sign = std::signbit(x) ? 0x80 : 0;
    const int expected = sign | (std::isnan(x) ? 0x7F : nearest_code(values, std::fabs(x)));
    ASSERT_EQ(Codec::encode(x), expected) << std::hexfloat << x;
  }
}
TEST(Codecs, E4M3EncodesEveryBf16PatternToTheNearestCode) { expect_encodes_8_bits<E4M3>(kE4M3); }
TEST(Codecs, E5M2EncodesEveryBf16PatternToTheNearestCode) { expect_encodes_8_bits<E5M2>(kE5M2); }

TEST(Codecs, E8M0DecodesPowersOfTwo) {
  for (int b = 0; b < 255; ++b) {
    EXPECT_EQ(E8M0::decode(static_cast<uint8_t>(b)), std::ldexp(1.0, b - 127)) << b;
    EXPECT_EQ(E8M0::inverse(static_cast<uint8_t>(b)), std::ldexp(1.0, 127 - b)) << b;
  }
  EXPECT_TRUE(std::isnan(E8M0::decode(0xFF)));
  EXPECT_TRUE(std::isnan(E8M0::inverse(0xFF)));
}

/// The smallest byte whose power of two is at least |x|, by frexp.
int e8m0_by_frexp(float x) {
  if (std::isnan(x)) return 0xFF;
  if (std::isinf(x)) return 0xFE;
  if (x == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(static_cast<double>(x)), &exponent);  // in [0.5, 1)
  const int power = fraction == 0.5 ? exponent - 1 : exponent;
  return std::clamp(power + 127, 0, 0xFE);
}

TEST(Codecs, E8M0EncodesRoundingUp) {
  std::vector<float> values = inputs(kE5M2);
  for (int e = -149; e <= 127; ++e) {
    const auto power = static_cast<float>(std::ldexp(1.0, e));
    for (const float y : {std::nextafter(power, 0.0f), power, std::nextafter(power, INFINITY)})
      values.push_back(y);
  }
  for (const float x : values) ASSERT_EQ(E8M0::encode_round_up(x), e8m0_by_frexp(x)) << std::hexfloat << x;
}

/// BF16 rounding by double arithmetic: of the two BF16 values around x the nearer one, ties to the even
/// pattern.
uint16_t bf16_by_search(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto low = static_cast<uint16_t>(bits >> 16);  // truncation moves toward zero
  if (std::isinf(x)) return low;
  const auto high = static_cast<uint16_t>(low + 1);
  const auto as_double = [](uint16_t b) {
    // One past the largest finite value stands for 2^128, where rounding to infinity begins to count.
    if ((b & 0x7FFF) == 0x7F80) return std::ldexp((b & 0x8000) != 0 ? -1.0 : 1.0, 128);
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(b) << 16));
  };
  const double to_low = std::fabs(x - as_double(low));
  const double to_high = std::fabs(x - as_double(high));
  if (to_low == to_high) return low % 2 == 0 ? low : high;
  return to_low < to_high ? low : high;
}

TEST(Bf16, RoundsToNearestEvenAsDoubleArithmeticDoes) {
  constexpr std::array<uint32_t, 8> kLow = {0, 1, 0x1234, 0x7FFF, 0x8000, 0x8001, 0xCDEF, 0xFFFF};
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t low : kLow) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      const bf16 rounded(x);
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(static_cast<float>(rounded))) << std::hex << high << ' ' << low;
      } else {
        ASSERT_EQ(rounded.bits, bf16_by_search(x)) << std::hex << high << ' ' << low;
      }
    }
  }
}

TEST(Bf16, WideningIsExact) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float x = bf16::from_bits(static_cast<uint16_t>(bits));
    EXPECT_EQ(std::bit_cast<uint32_t>(x), bits << 16);
  }
}

// Products of codes and block scales are what a GEMM relies on: exact in BF16.
TEST(Codecs, CodeTimesBlockScaleIsExactInBf16) {
  for (int code = 0; code < 16; ++code) {
    for (int scale = 0; scale < 0x7F; ++scale) {
      const float product =
          E2M1::decode(static_cast<uint8_t>(code)) * E4M3::decode(static_cast<uint8_t>(scale));
      EXPECT_EQ(static_cast<float>(bf16(product)), product) << code << ' ' << scale;
    }
  }
}

static_assert(E2M1::encode(2.5f) == 4 && E4M3::encode(1.0f) == 0x38, "codecs work at compile time");

}  // namespace
}  // namespace minite
