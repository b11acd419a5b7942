// Each slip of meaning on log-probs made for it: its detector fits, and no other one.
#include "diagnostics/align_semantics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "diagnostics/logit_row.h"

namespace minite::diagnostics {
namespace {

constexpr double kTemperature = 0.7;
constexpr int kTop = 3;

/// Four responses to two requests over a vocabulary of 8, with the log-probs of a right side.
ScoredTokens right_tokens() {
  ScoredTokens s;
  s.temperature = kTemperature;
  double seed = 0.3;
  for (const int64_t length : {5, 3, 5, 4}) {
    s.request.push_back(s.sequences() / 2);
    for (int64_t t = 0; t < length; ++t) {
      std::vector<double> logits(8);
      for (double& x : logits) {
        seed = std::fmod(seed * 7.13 + 0.171, 1.0);
        x = 4 * seed;
      }
      const double chosen = *std::ranges::max_element(logits);
      s.lse.push_back(log_sum_exp(logits, kTemperature));
      s.lse_1.push_back(log_sum_exp(logits, 1.0));
      s.kept_mass.push_back(kept_mass(logits, kTemperature, kTop, 1.0));
      s.a.push_back(static_cast<float>(chosen / kTemperature - s.lse.back()));
    }
    s.offsets.push_back(s.offsets.back() + length);
  }
  s.b = s.a;
  return s;
}

/// Names of the slips that fit.
std::vector<std::string> fitting(const ScoredTokens& s) {
  std::vector<std::string> names;
  for (const SemanticFit& f : find_slips(s)) {
    if (f.fits) names.emplace_back(f.name);
  }
  return names;
}
using Names = std::vector<std::string>;

TEST(Slips, EqualLogProbsFitNone) { EXPECT_EQ(fitting(right_tokens()), Names{}); }

TEST(Slips, ShiftByOneEitherWay) {
  ScoredTokens s = right_tokens();
  for (int64_t i = 0; i < s.sequences(); ++i)
    std::rotate(s.b.begin() + s.offsets[i], s.b.begin() + s.offsets[i + 1] - 1,
                s.b.begin() + s.offsets[i + 1]);
  EXPECT_EQ(fitting(s), Names{"shifted"});
  std::swap(s.a, s.b);
  EXPECT_EQ(fitting(s), Names{"shifted back"});
  s.b[1] = std::nextafter(s.b[1], 0.0);  // one bit off is no shift
  EXPECT_EQ(fitting(s), Names{});
}

TEST(Slips, TemperatureAfterTheSoftmaxNamesTheSide) {
  ScoredTokens s = right_tokens();
  for (size_t t = 0; t < s.b.size(); ++t)
    s.b[t] = static_cast<float>((kTemperature * (s.a[t] + s.lse[t]) - s.lse_1[t]) / kTemperature);
  EXPECT_EQ(fitting(s), Names{"temperature after softmax"});
  const auto fits = find_slips(s);
  const auto it = std::ranges::find_if(fits, &SemanticFit::fits);
  EXPECT_EQ(it->text, "B divides the log-probs by the temperature, A the logits");
  EXPECT_EQ(it->tokens, 17);
  std::swap(s.a, s.b);
  const auto other = find_slips(s);
  EXPECT_EQ(std::ranges::find_if(other, &SemanticFit::fits)->text,
            "A divides the log-probs by the temperature, B the logits");
}

TEST(Slips, TemperatureLeftOut) {
  ScoredTokens s = right_tokens();
  for (size_t t = 0; t < s.b.size(); ++t) s.b[t] = kTemperature * (s.a[t] + s.lse[t]) - s.lse_1[t];
  EXPECT_EQ(fitting(s), Names{"temperature left out"});
}

TEST(Slips, RenormalisedNucleus) {
  ScoredTokens s = right_tokens();
  for (size_t t = 0; t < s.b.size(); ++t) s.b[t] = s.a[t] - std::log(s.kept_mass[t]);
  EXPECT_EQ(fitting(s), Names{"renormalised nucleus"});
}

TEST(Slips, AnotherSamplesResponse) {
  ScoredTokens s = right_tokens();
  // Responses 0 and 2 have one length but answer other requests; within request 0 the lengths differ.
  std::swap_ranges(s.b.begin(), s.b.begin() + 5, s.b.begin() + 8);
  EXPECT_EQ(fitting(s), Names{});
  s.request = {0, 1, 0, 1};
  EXPECT_EQ(fitting(s), Names{"another sample's response"});
}

TEST(Slips, PaddingTakenForData) {
  ScoredTokens s = right_tokens();
  s.only_b = 2;
  EXPECT_EQ(fitting(s), Names{"padding taken for data"});
}

TEST(Slips, WithoutLogitsTheirSlipsAreNotTested) {
  ScoredTokens s = right_tokens();
  s.lse.clear(), s.lse_1.clear(), s.kept_mass.clear();
  for (double& x : s.b) x *= 2;
  std::map<std::string, int> tested;
  for (const SemanticFit& f : find_slips(s)) ++tested[std::string(f.name)];
  EXPECT_EQ(tested.size(), 3u);  // two shifts and another sample's response
}

TEST(LogitRow, KeptMassIsThatOfTheBestTokens) {
  const std::vector<double> x = {std::log(1.0), std::log(4.0), std::log(2.0), std::log(3.0)};
  EXPECT_DOUBLE_EQ(kept_mass(x, 1.0, 0, 1.0), 1.0);
  EXPECT_NEAR(kept_mass(x, 1.0, 2, 1.0), 0.7, 1e-12);
  EXPECT_NEAR(kept_mass(x, 1.0, 0, 0.65), 0.7, 1e-12);
  EXPECT_NEAR(kept_mass(x, 1.0, 2, 0.5), 0.4, 1e-12);  // 0.5 of the two that top-k leaves
  EXPECT_NEAR(log_sum_exp(x, 1.0), std::log(10.0), 1e-12);
}

}  // namespace
}  // namespace minite::diagnostics
