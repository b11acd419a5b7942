// exp, log and sigmoid: vectors equal scalars bit for bit, and both are near the exact value.
#include "core/math.h"

#include <bit>
#include <cmath>
#include <limits>

#include "conformance/conformance.h"

namespace minite::simd {
#define MINITE_LANES(isa)                  \
  namespace isa {                          \
  void exp_lanes(float* x, int64_t n);     \
  void log_lanes(float* x, int64_t n);     \
  void sigmoid_lanes(float* x, int64_t n); \
  }
MINITE_LANES(avx2)
MINITE_LANES(avx512)
}  // namespace minite::simd

namespace minite::conformance {
namespace {

using Math = Level;
MINITE_LEVELS(Math);

struct Function {
  const char* name;
  void (*avx2)(float*, int64_t);
  void (*avx512)(float*, int64_t);
  float (*scalar)(float);
  double (*exact)(double);
  uint32_t first, last;  ///< patterns walked
  double ulps;           ///< allowed distance from exact values of at least `least`
  double least;
};
constexpr uint32_t kNormal = 0x00800000u, kInfinity = 0x7F800000u;
const std::array<Function, 3> kFunctions = {{
    {"exp", simd::avx2::exp_lanes, simd::avx512::exp_lanes, [](float x) { return math::exp(x); },
     [](double x) { return std::exp(x); }, 0, 0xFFFFFFFFu, 1.02, 0},
    {"log", simd::avx2::log_lanes, simd::avx512::log_lanes, [](float x) { return math::log(x); },
     [](double x) { return std::log(x); }, kNormal, kInfinity - 1, 0.8, 0},
    {"sigmoid", simd::avx2::sigmoid_lanes, simd::avx512::sigmoid_lanes,
     [](float x) { return math::sigmoid(x); }, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, 0,
     0xFFFFFFFFu, 2.5, 0x1p-126},
}};

/// Distance in units of the last place of the exact value; an overflow or underflow that the exact value
/// shares counts as none.
double distance(float got, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (got == rounded || (std::isnan(got) && std::isnan(exact))) return 0;
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST_P(Math, LanesEqualScalarsAndAreAccurate) {
  constexpr int64_t kBatch = 4096;
  std::vector<float> x(kBatch), y(kBatch);
  for (const Function& f : kFunctions) {
    const auto lanes = std::string(GetParam()) == "avx512" ? f.avx512 : f.avx2;
    double worst = 0;
    const uint64_t step = (uint64_t{f.last} - f.first) / 3'000'000 | 1;
    for (uint64_t begin = f.first; begin <= f.last; begin += step * kBatch) {
      for (int64_t i = 0; i < kBatch; ++i) {
        const uint64_t u = begin + step * static_cast<uint64_t>(i);
        x[static_cast<size_t>(i)] =
            std::bit_cast<float>(static_cast<uint32_t>(std::min<uint64_t>(u, f.last)));
      }
      y = x;
      lanes(y.data(), kBatch);
      for (size_t i = 0; i < x.size(); ++i) {
        const float want = f.scalar(x[i]);
        const bool same = std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(y[i]) ||
                          (std::isnan(want) && std::isnan(y[i]));
        ASSERT_TRUE(same) << f.name << "(" << x[i] << "): scalar " << want << ", lanes " << y[i];
        ASSERT_EQ(std::isnan(x[i]), std::isnan(want)) << f.name << "(" << x[i] << ")";
        const double exact = f.exact(static_cast<double>(x[i]));
        if (std::fabs(exact) >= f.least) worst = std::max(worst, distance(want, exact));
      }
    }
    EXPECT_LE(worst, f.ulps) << f.name;
    RecordProperty(std::string(f.name) + "_ulps_in_thousandths", static_cast<int>(worst * 1000));
  }
}

TEST_P(Math, Corners) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_EQ(math::exp(-infinity), 0.0f);
  EXPECT_EQ(math::exp(infinity), infinity);
  EXPECT_EQ(math::log(1.0f), 0.0f);
  EXPECT_EQ(math::sigmoid(0.0f), 0.5f);
  EXPECT_EQ(math::sigmoid(-infinity), 0.0f);
  EXPECT_EQ(math::sigmoid(infinity), 1.0f);
  EXPECT_TRUE(std::isnan(math::log(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace minite::conformance
