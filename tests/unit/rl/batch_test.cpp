#include <cmath>
#include <limits>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Data two_responses() {
  Data d;
  d.add({0.1, 0.2}, 1);
  d.add({0.3, 0.4, 0.5}, -1);
  return d;
}

void expect_refused(ErrorCode code, const std::vector<std::string>& parts,
                    const std::function<void(Data&)>& spoil) {
  Data d = two_responses();
  spoil(d);
  expect_error(code, parts, [&] { validate(d.batch()); });
}

TEST(Batch, AcceptsRaggedAndEmptyResponses) {
  Data d = two_responses();
  EXPECT_NO_THROW(validate(d.batch()));
  d.add({}, 1);
  EXPECT_NO_THROW(validate(d.batch()));
  EXPECT_EQ(d.batch().n_responses(), 3);
  EXPECT_EQ(d.batch().n_tokens(), 5);
  EXPECT_NO_THROW(validate(Data{}.batch()));
}

TEST(Batch, NamesTheWrongLength) {
  const auto bad = ErrorCode::invalid_argument;
  expect_refused(bad, {"logp_sampler has 4", "mask has 5"}, [](Data& d) { d.sampler.pop_back(); });
  expect_refused(bad, {"logp_old has 4"}, [](Data& d) { d.old.pop_back(); });
  expect_refused(bad, {"logp_ref has 4"}, [](Data& d) { d.ref.assign(4, -1.0); });
  expect_refused(bad, {"advantage has 6"}, [](Data& d) { d.advantage.push_back(0); });
  expect_refused(bad, {"offsets is empty"}, [](Data& d) { d.offsets.clear(); });
  expect_refused(bad, {"offsets[0] = 1"}, [](Data& d) { d.offsets[0] = 1; });
  expect_refused(bad, {"offsets[2] = 5", "offsets[1] = 9"}, [](Data& d) { d.offsets[1] = 9; });
  expect_refused(bad, {"offsets[1] = -1"}, [](Data& d) { d.offsets[1] = -1; });
  expect_refused(bad, {"last offset is 4", "5 tokens"}, [](Data& d) { d.offsets[2] = 4; });
  expect_refused(bad, {"mask = 255", "response 1, token 1"}, [](Data& d) { d.mask[3] = 255; });
}

TEST(Batch, NamesTheNonFiniteToken) {
  const auto bad = ErrorCode::non_finite;
  expect_refused(bad, {"logp_sampler = nan", "response 1, token 2"},
                 [](Data& d) { d.sampler[4] = std::nan(""); });
  expect_refused(bad, {"logp_old = -inf", "response 0, token 1"}, [](Data& d) { d.old[1] = -kInf; });
  expect_refused(bad, {"logp_ref = nan", "response 1, token 0"}, [](Data& d) {
    d.ref.assign(5, -1.0);
    d.ref[2] = std::nan("");
  });
  expect_refused(bad, {"advantage = inf", "response 1, token 0"}, [](Data& d) { d.advantage[2] = kInf; });
}

// Some engines report NaN or nothing where p -> 1. Such a token is taken out everywhere, and counted.
TEST(Batch, MissingSamplerLogProbsAreMaskedAndCounted) {
  Data d = two_responses();
  d.sampler[1] = std::nan("");
  d.sampler[3] = -kInf;
  d.sampler[4] = std::nan("");
  d.mask[4] = 0;
  EXPECT_EQ(mask_non_finite(d.sampler, d.mask), 2);
  EXPECT_EQ(d.mask, (std::vector<std::uint8_t>{1, 0, 1, 0, 0}));
  const Prepared p = prepare(d.batch(), LossConfig{});
  EXPECT_EQ(p.totals.tokens, 2);
  EXPECT_EQ(gap_stats(d.batch()).tokens, 2);
  const Result r = run(d, p, 0, 2);
  EXPECT_TRUE(std::isfinite(r.loss));
  EXPECT_EQ(mask_non_finite(d.sampler, d.mask), 0);
  expect_error(ErrorCode::invalid_argument, {"logp_sampler has 2", "mask has 5"},
               [&] { (void)mask_non_finite(std::span(d.sampler).first(2), d.mask); });
}

TEST(Batch, GarbageUnderTheMaskIsAllowed) {
  Data d = two_responses();
  d.mask[4] = 0;
  d.ref.assign(5, -1.0);
  d.sampler[4] = d.old[4] = d.advantage[4] = d.ref[4] = std::nan("");
  EXPECT_NO_THROW(validate(d.batch()));
}

}  // namespace
}  // namespace minite::rl::test
