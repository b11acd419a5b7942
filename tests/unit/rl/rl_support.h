#pragma once
// Owning ragged batches, a reproducible generator and bit comparison for the tests of this room.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "minite/rl.h"

namespace minite::rl::test {

/// 64-bit linear congruential generator (Knuth's MMIX constants); only the upper bits are used.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  double uniform(double low, double high) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return low + (high - low) * static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

/// A batch with its storage, and live values of all tokens.
struct Data {
  std::vector<std::int64_t> offsets = {0};
  std::vector<double> sampler, old, advantage, live, entropy;
  std::vector<double> ref;  ///< empty: no KL reference
  std::vector<std::uint8_t> mask;

  /// Appends a response; gaps are old - sampler and the sampler's log-prob is -1 everywhere.
  void add(const std::vector<double>& gaps, double a, const std::vector<std::uint8_t>& m = {}) {
    for (std::size_t t = 0; t < gaps.size(); ++t) {
      sampler.push_back(-1.0);
      old.push_back(-1.0 + gaps[t]);
      live.push_back(old.back());
      entropy.push_back(1.0);
      advantage.push_back(a);
      mask.push_back(m.empty() ? 1 : m[t]);
    }
    offsets.push_back(static_cast<std::int64_t>(mask.size()));
  }

  [[nodiscard]] Batch batch() const { return {offsets, sampler, old, mask, advantage, ref}; }
};

/// Responses of the given lengths with gaps up to a few nats, 10 % masked tokens and advantages of both
/// signs. Ratios of live to old lie on both sides of the clip range.
inline Data random_data(const std::vector<std::int64_t>& lengths, std::uint64_t seed) {
  Random random(seed);
  Data d;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double a = (i % 2 == 0 ? -1.0 : 1.0) * random.uniform(0.2, 1.5);
    for (std::int64_t t = 0; t < lengths[i]; ++t) {
      const double s = random.uniform(-3.0, -0.1);
      const double shift = i % 4 == 0 ? -0.6 : -0.1;
      const double deep = random.uniform(0.0, 1.0) < 0.02 ? -6.5 : 0.0;
      d.sampler.push_back(s);
      d.old.push_back(s + shift + deep + random.uniform(-0.4, 0.4));
      d.live.push_back(d.old.back() + random.uniform(-0.5, 0.5));
      d.entropy.push_back(random.uniform(0.0, 2.0));
      d.advantage.push_back(a);
      d.mask.push_back(random.uniform(0.0, 1.0) < 0.1 ? 0 : 1);
    }
    d.offsets.push_back(static_cast<std::int64_t>(d.mask.size()));
  }
  return d;
}

/// Gives `d` reference log-probs up to a nat away from the live ones.
inline void add_reference(Data& d, std::uint64_t seed) {
  Random random(seed);
  d.ref.clear();
  for (double live : d.live) d.ref.push_back(live + random.uniform(-1.0, 1.0));
}

struct Result {
  double loss = 0.0;
  std::vector<double> dlogp, dentropy;
  MetricSums sums;
};

/// evaluate() over [begin, end) of a prepared batch.
inline Result run(const Data& d, const Prepared& p, std::int64_t begin, std::int64_t end) {
  Result r;
  const auto first = static_cast<std::size_t>(d.offsets[begin]);
  const auto n = static_cast<std::size_t>(d.offsets[end]) - first;
  r.dlogp.assign(n, -99.0);
  r.dentropy.assign(n, -99.0);
  r.loss = evaluate(d.batch(), p, begin, end,
                    {std::span(d.live).subspan(first, n), std::span(d.entropy).subspan(first, n)},
                    {r.dlogp, r.dentropy}, r.sums);
  return r;
}

inline Result run(const Data& d, const LossConfig& config) {
  return run(d, prepare(d.batch(), config), 0, d.batch().n_responses());
}

inline ::testing::AssertionResult same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " != " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i])) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " != " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

/// Runs `action`, which must throw Error{code} whose message contains every one of `parts`.
inline void expect_error(ErrorCode code, const std::vector<std::string>& parts,
                         const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << part << " not in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "no error; expected one about " << parts.front();
}

/// Gate and Repair on, with the aggregation that the normalization needs.
inline LossConfig triage_config(Normalization normalization) {
  LossConfig c;
  c.triage.normalization = normalization;
  c.loss_agg_mode =
      normalization == Normalization::response ? LossAggMode::seq_mean_token_mean : LossAggMode::token_mean;
  c.triage.gate.enable = true;
  c.triage.repair.enable = true;
  c.rollout_is = RolloutIs::token;
  return c;
}

}  // namespace minite::rl::test
