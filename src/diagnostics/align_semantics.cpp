#include "diagnostics/align_semantics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace minite::diagnostics {
namespace {

/// Log-probs are FP32 and were computed in another order than here.
constexpr double kTolerance = 1e-4;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a slip predicts: tokens tested and the largest error.
struct Test {
  int64_t tokens = 0;
  double error = 0;
  void add(double expected, double found) {
    const double diff = std::abs(expected - found);
    error = std::isnan(diff) ? kNever : std::max(error, diff);
    ++tokens;
  }
};

using Values = std::vector<double>;

/// wrong[t] against right[t + step], where both are in the sequence.
Test shifted(const ScoredTokens& s, const Values& right, const Values& wrong, int64_t step) {
  Test test;
  for (int64_t i = 0; i < s.sequences(); ++i) {
    for (int64_t t = s.offsets[i]; t < s.offsets[i + 1]; ++t) {
      if (t + step < s.offsets[i] || t + step >= s.offsets[i + 1]) continue;
      test.add(right[static_cast<size_t>(t + step)], wrong[static_cast<size_t>(t)]);
    }
  }
  return test;
}
Test earlier(const ScoredTokens& s, const Values& right, const Values& wrong) {
  return shifted(s, right, wrong, -1);
}
Test later(const ScoredTokens& s, const Values& right, const Values& wrong) {
  return shifted(s, right, wrong, 1);
}

/// Log-prob at temperature 1: the token's logit is T (logp + lse).
double at_1(const ScoredTokens& s, const Values& right, size_t t) {
  return s.temperature * (right[t] + s.lse[t]) - s.lse_1[t];
}
Test temperature_after(const ScoredTokens& s, const Values& right, const Values& wrong) {
  Test test;
  for (size_t t = 0; t < s.lse_1.size(); ++t) test.add(at_1(s, right, t) / s.temperature, wrong[t]);
  return test;
}
Test no_temperature(const ScoredTokens& s, const Values& right, const Values& wrong) {
  Test test;
  for (size_t t = 0; t < s.lse_1.size(); ++t) test.add(at_1(s, right, t), wrong[t]);
  return test;
}

Test renormalized(const ScoredTokens& s, const Values& right, const Values& wrong) {
  Test test;
  for (size_t t = 0; t < s.kept_mass.size(); ++t) test.add(right[t] - std::log(s.kept_mass[t]), wrong[t]);
  return test;
}

bool equal(const ScoredTokens& s, const Values& right, int64_t i, const Values& wrong, int64_t j) {
  const auto at = [&](const Values& v, int64_t k) {
    return std::span(v).subspan(static_cast<size_t>(s.offsets[k]),
                                static_cast<size_t>(s.offsets[k + 1] - s.offsets[k]));
  };
  return std::ranges::equal(at(right, i), at(wrong, j));
}

/// Every sequence that differs must have the values of another response to the same request.
Test other_sample(const ScoredTokens& s, const Values& right, const Values& wrong) {
  Test test;
  for (int64_t j = 0; j < s.sequences(); ++j) {
    if (equal(s, right, j, wrong, j)) continue;
    test.tokens += s.offsets[j + 1] - s.offsets[j];
    bool found = false;
    for (int64_t i = 0; i < s.sequences() && !found; ++i)
      found = i != j && s.request[i] == s.request[j] && equal(s, right, i, wrong, j);
    if (!found) test.error = kNever;
  }
  return test;
}

struct Detector {
  Slip slip;
  Test (*test)(const ScoredTokens&, const Values& right, const Values& wrong);
  double tolerance;
  bool both_ways;  ///< else the other way says the same
  const char* text;
};
constexpr std::array<Detector, 6> kDetectors = {{
    {{"shifted", "logp of one side at t equals that of the other at t - 1, bit for bit"},
     earlier,
     0,
     false,
     "the log-probs of {wrong} are those of {right} one position earlier"},
    {{"shifted back", "logp of one side at t equals that of the other at t + 1, bit for bit"},
     later,
     0,
     false,
     "the log-probs of {wrong} are those of {right} one position later"},
    {{"temperature after softmax", "(T (logp + lse_T) - lse_1) / T"},
     temperature_after,
     kTolerance,
     true,
     "{wrong} divides the log-probs by the temperature, {right} the logits"},
    {{"temperature left out", "T (logp + lse_T) - lse_1"},
     no_temperature,
     kTolerance,
     true,
     "{wrong} gives log-probs at temperature 1"},
    {{"renormalised nucleus", "logp - log(probability that top-k and top-p leave)"},
     renormalized,
     kTolerance,
     true,
     "{wrong} gives log-probs among the tokens that top-k and top-p leave, {right} of the full softmax"},
    {{"another sample's response",
      "every sequence that differs has the log-probs of another sample of its request"},
     other_sample,
     0,
     false,
     "the log-probs of {wrong} are those of other responses to the same requests"},
}};
constexpr Slip kPadding = {"padding taken for data",
                           "one side scores tokens before or behind those of the other in the same sequence"};

SemanticFit fit(const ScoredTokens& s, const Detector& d, bool b_is_wrong) {
  const Test test = b_is_wrong ? d.test(s, s.a, s.b) : d.test(s, s.b, s.a);
  const std::string text = fmt::format(fmt::runtime(d.text), fmt::arg("right", b_is_wrong ? "A" : "B"),
                                       fmt::arg("wrong", b_is_wrong ? "B" : "A"));
  return {d.slip.name, text, test.tokens, test.error, test.tokens > 0 && test.error <= d.tolerance};
}

constexpr auto make_slips() {
  std::array<Slip, kDetectors.size() + 1> all{};
  for (size_t i = 0; i < kDetectors.size(); ++i) all[i] = kDetectors[i].slip;
  all.back() = kPadding;
  return all;
}
constexpr auto kSlips = make_slips();

}  // namespace

std::span<const Slip> slips() { return kSlips; }

std::vector<SemanticFit> find_slips(const ScoredTokens& s) {
  std::vector<SemanticFit> fits;
  // Where both sides have the same bits nothing slipped, and a list of equal values fits any shift.
  const bool differ = s.a != s.b;
  for (const Detector& d : kDetectors) {
    if (!differ) break;
    for (const bool b_is_wrong : {true, false}) {
      if (!b_is_wrong && !d.both_ways) continue;
      SemanticFit f = fit(s, d, b_is_wrong);
      if (f.tokens > 0) fits.push_back(std::move(f));
    }
  }
  if (const int64_t extra = s.only_a + s.only_b; extra > 0) {
    fits.push_back({kPadding.name,
                    fmt::format("{} scores {} tokens that {} does not count as part of the response",
                                s.only_b > 0 ? "B" : "A", extra, s.only_b > 0 ? "A" : "B"),
                    extra, 0, true});
  }
  return fits;
}

}  // namespace minite::diagnostics
