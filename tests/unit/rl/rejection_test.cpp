// rollout_rs: every statistic against its formula, spelling of thresholds, numerator and denominators.
#include <algorithm>
#include <cmath>
#include <map>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

/// Which tokens of one response with the gaps `x` keep their weight.
std::vector<bool> kept(const std::vector<double>& x, std::string_view statistic, std::string_view threshold,
                       const std::vector<std::uint8_t>& mask = {}) {
  Data d;
  d.add(x, 1.0, mask);
  LossConfig c;
  c.rollout_rs = parse_rollout_rs(statistic, threshold);
  const Prepared p = prepare(d.batch(), c);
  std::vector<bool> out;
  for (double w : p.is_weight) out.push_back(w != 0.0);
  return out;
}

using Kept = std::vector<bool>;

TEST(Rejection, TokenStatistics) {
  const std::vector<double> x = {0.0, 0.5, -0.5, 1.0, -1.0};
  EXPECT_EQ(kept(x, "token_k1", "0.5_2"), (Kept{true, true, true, false, false}));
  // The bounds hold for 1 / rho, as in verl: x = 0.5 is 1 / rho = 0.61, x = -0.5 is 1.65.
  EXPECT_EQ(kept(x, "token_k1", "0.6_1.5"), (Kept{true, true, false, false, false}));
  EXPECT_EQ(kept(x, "token_k1", "1.5"), (Kept{true, false, false, false, false}));  // 1/1.5 to 1.5
  EXPECT_EQ(kept(x, "token_k2", "0.125"), (Kept{true, true, true, false, false}));
  EXPECT_EQ(kept(x, "token_k2", "0.12"), (Kept{true, false, false, false, false}));
  // k3: 0, 0.1487, 0.1065, 0.7183, 0.3679.
  EXPECT_EQ(kept(x, "token_k3", "0.12"), (Kept{true, false, true, false, false}));
  EXPECT_EQ(kept(x, "token_k3", "0.4"), (Kept{true, true, true, false, true}));
}

TEST(Rejection, ResponseStatistics) {
  const Kept all(3, true), none(3, false);
  const std::vector<double> x = {0.4, 0.4, -0.2};   // k1 sum -0.6, mean -0.2
  EXPECT_EQ(kept(x, "seq_sum_k1", "0.54_2"), all);  // exp(-0.6) = 0.5488
  EXPECT_EQ(kept(x, "seq_sum_k1", "0.56_2"), none);
  EXPECT_EQ(kept(x, "seq_mean_k1", "0.81_2"), all);  // exp(-0.2) = 0.8187
  EXPECT_EQ(kept(x, "seq_mean_k1", "0.83_2"), none);
  EXPECT_EQ(kept(x, "seq_sum_k2", "0.19"), all);  // 0.08 + 0.08 + 0.02 = 0.18
  EXPECT_EQ(kept(x, "seq_sum_k2", "0.17"), none);
  EXPECT_EQ(kept(x, "seq_mean_k2", "0.061"), all);
  EXPECT_EQ(kept(x, "seq_mean_k2", "0.059"), none);
  const double k3 = std::expm1(0.4) - 0.4, small = std::expm1(-0.2) + 0.2;
  const auto text = [](double v) { return std::to_string(v); };
  EXPECT_EQ(kept(x, "seq_sum_k3", text(2 * k3 + small + 1e-4)), all);
  EXPECT_EQ(kept(x, "seq_sum_k3", text(2 * k3 + small - 1e-4)), none);
  EXPECT_EQ(kept(x, "seq_mean_k3", text((2 * k3 + small) / 3 + 1e-4)), all);
  EXPECT_EQ(kept(x, "seq_mean_k3", text((2 * k3 + small) / 3 - 1e-4)), none);
  EXPECT_EQ(kept(x, "seq_max_k2", "0.081"), all);
  EXPECT_EQ(kept(x, "seq_max_k2", "0.079"), none);
  EXPECT_EQ(kept(x, "seq_max_k3", text(k3 + 1e-4)), all);
  EXPECT_EQ(kept(x, "seq_max_k3", text(k3 - 1e-4)), none);
}

TEST(Rejection, VetoDropsTheResponseForOneToken) {
  const double below = std::log(0.9e-4), above = std::log(1.1e-4);
  EXPECT_EQ(kept({0.0, below, 3.0}, "veto", "1e-4"), Kept(3, false));
  EXPECT_EQ(kept({0.0, above, 3.0}, "veto", "1e-4"), Kept(3, true));
  EXPECT_EQ(kept({0.0, below, 0.0}, "veto", "1e-4", {1, 0, 1}), (Kept{true, false, true}));  // masked
}

TEST(Rejection, AllRulesMustHold) {
  const std::vector<double> x = {0.0, 1.0, -1.0};
  EXPECT_EQ(kept(x, "token_k1,token_k3", "0.3_3,0.5"), (Kept{true, false, true}));
  EXPECT_EQ(kept(x, "token_k3,seq_max_k2", "0.5"), (Kept{true, false, true}));  // one threshold for both
  EXPECT_EQ(kept(x, "token_k3,seq_max_k2", "0.5,0.4"), Kept(3, false));
}

// Rejected tokens lose their numerator only; the gap and the other terms do not see the rejection.
TEST(Rejection, DenominatorsAndGapStay) {
  Data d;
  d.add({0.0, 2.0, 0.0, -2.0}, 1);
  d.add({0.0, 0.0}, 1);
  add_reference(d, 61);
  LossConfig c;
  c.kl_loss_coef = 0.1;
  const LossConfig off = c;
  c.rollout_rs = parse_rollout_rs("token_k1", "0.5_2");
  const Prepared p = prepare(d.batch(), c);
  EXPECT_EQ(p.totals.tokens, 6);
  EXPECT_EQ(p.totals.responses, 2);
  EXPECT_EQ(p.response_tokens[0], 4);
  EXPECT_EQ(p.is_sums.rejected, 2);
  EXPECT_EQ(p.is_sums.rejected_responses, 1);
  EXPECT_EQ(p.is_sums.weight, 6.0);  // before the rejection
  const Result r = run(d, p, 0, 2);
  const Result plain = run(d, off);
  EXPECT_DOUBLE_EQ(r.sums.pg_loss, -(2.0 / 4 + 1.0) / 2);
  EXPECT_EQ(r.sums.kl_loss, plain.sums.kl_loss);
  EXPECT_EQ(r.dlogp[0], plain.dlogp[0]);
  EXPECT_NE(r.dlogp[1], plain.dlogp[1]);
  const auto values = metrics(d.batch(), p, r.sums);
  const std::map<std::string, double> m(values.begin(), values.end());
  EXPECT_DOUBLE_EQ(m.at("train_rollout_logprob_abs_diff"), 4.0 / 6);
  EXPECT_EQ(m.at("gap_max"), 2.0);
  EXPECT_DOUBLE_EQ(m.at("rollout_rs_masked_fraction"), 2.0 / 6);
  EXPECT_EQ(m.at("rollout_rs_seq_masked_fraction"), 0.5);
}

TEST(Rejection, CombinesWithACorrectionWeight) {
  Data d;
  d.add({0.5, 2.0, -0.2}, 1);
  LossConfig c;
  c.rollout_is = RolloutIs::token;
  c.rollout_rs = parse_rollout_rs("token_k2", "0.2");
  const Prepared p = prepare(d.batch(), c);
  EXPECT_DOUBLE_EQ(p.is_weight[0], std::exp(0.5));
  EXPECT_EQ(p.is_weight[1], 0.0);
  EXPECT_DOUBLE_EQ(p.is_weight[2], std::exp(-0.2));
  EXPECT_EQ(p.is_sums.changed, 1);  // truncated at 2, whatever the rejection does
}

TEST(Rejection, SpellingIsChecked) {
  EXPECT_TRUE(parse_rollout_rs("none", "").empty());
  const auto bad = ErrorCode::invalid_argument;
  const auto call = [](std::string_view s, std::string_view t) { (void)parse_rollout_rs(s, t); };
  expect_error(bad, {"rollout_rs_threshold '2'", "rollout_rs=none"}, [&] { call("none", "2"); });
  expect_error(bad, {"rollout_rs=token_k1 needs rollout_rs_threshold"}, [&] { call("token_k1", ""); });
  expect_error(bad, {"rollout_rs 'token_k4'", "seq_max_k3"}, [&] { call("token_k4", "2"); });
  expect_error(bad, {"rollout_rs ''"}, [&] { call("token_k1,", "2"); });
  expect_error(bad, {"2 statistics", "3 thresholds"}, [&] { call("token_k1,veto", "1,2,3"); });
  for (const char* text : {"x", "0", "-1", "1_", "_1", "0_2", "inf", "nan"}) {
    expect_error(bad, {"rollout_rs_threshold '" + std::string(text) + "'"}, [&] { call("token_k1", text); });
  }
  expect_error(bad, {"'0.5_2' is not a number"}, [&] { call("token_k2", "0.5_2"); });
  expect_error(bad, {"'0.5_2' is not a number"}, [&] { call("veto", "0.5_2"); });
}

}  // namespace
}  // namespace minite::rl::test
