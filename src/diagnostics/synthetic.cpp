#include "diagnostics/synthetic.h"

#include <array>
#include <cmath>
#include <vector>

#include "core/fail.h"
#include "core/math.h"
#include "core/philox.h"

namespace minite::diagnostics {
namespace {

constexpr float kSqrt3 = 1.7320508f, kInverseSqrt2 = 0.70710678f;
constexpr uint64_t kChannels = 64;  // one in so many columns is an outlier
constexpr float kOutlier = 32.0f;
constexpr uint64_t kColumnStream = ~uint64_t{0};

/// In (-1, 1): 2^24 places, never 0.
float centred(uint32_t word) { return 2.0f * Philox::unit(word) - 1.0f + 0x1p-24f; }

/// Standard normal by Marsaglia's polar method: log and square root only, so that no library function decides
/// bits. An attempt is rejected with probability 1 - pi/4.
float normal(uint64_t seed, uint64_t element, uint64_t) {
  for (uint64_t attempt = 0;; ++attempt) {
    const auto words = Philox::generate(seed, element, attempt);
    for (const size_t pair : {size_t{0}, size_t{2}}) {
      const float u = centred(words[pair]), v = centred(words[pair + 1]), s = u * u + v * v;
      if (s < 1.0f) return u * std::sqrt(-2.0f * math::log(s) / s);
    }
  }
}

float laplace(uint64_t seed, uint64_t element, uint64_t) {
  const auto words = Philox::generate(seed, element, 0);
  const float magnitude = -math::log(Philox::unit(words[0]) + 0x1p-25f) * kInverseSqrt2;
  return (words[1] & 1u) != 0 ? magnitude : -magnitude;
}

float uniform(uint64_t seed, uint64_t element, uint64_t) {
  return centred(Philox::generate(seed, element, 0)[0]) * kSqrt3;
}

float outlier(uint64_t seed, uint64_t element, uint64_t column) {
  const bool loud = Philox::generate(seed, column, kColumnStream)[0] % kChannels == 0;
  return normal(seed, element, column) * (loud ? kOutlier : 1.0f);
}

constexpr std::array<Distribution, 4> kDistributions = {{
    {"normal", "Gaussian", normal},
    {"laplace", "Laplace: heavier tails", laplace},
    {"uniform", "uniform on [-sqrt(3) sigma, sqrt(3) sigma]", uniform},
    {"outlier",
     "Gaussian whose columns are 32 times louder with probability 1/64, as channels of activations", outlier},
}};

}  // namespace

std::span<const Distribution> distributions() { return kDistributions; }

const Distribution& distribution(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Distribution& row : kDistributions) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  fail(ErrorCode::not_found, "unknown distribution '{}': expected {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

void fill(const Distribution& distribution, float sigma, uint64_t seed, int64_t cols, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = sigma * distribution.value(seed, i, i % static_cast<uint64_t>(cols));
}

}  // namespace minite::diagnostics
