// Repair against tests/golden/rl_triage.json, its bookkeeping and scopes.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

using nlohmann::json;

LossConfig repair_only(RepairScope scope = RepairScope::adv_positive) {
  LossConfig c = triage_config(Normalization::response);
  c.triage.gate.enable = false;
  c.triage.repair.scope = scope;
  return c;
}

// The Repair part of the gradient: the policy part is the same with coefficient 0.
std::vector<double> pull(const Data& d, LossConfig c) {
  const Result with = run(d, c);
  c.triage.repair.coef = 0.0;
  const Result without = run(d, c);
  std::vector<double> out(with.dlogp.size());
  for (std::size_t t = 0; t < out.size(); ++t) out[t] = with.dlogp[t] - without.dlogp[t];
  return out;
}

TEST(Repair, GoldenPenaltyAndForce) {
  std::ifstream file(MINITE_SOURCE_DIR "/tests/golden/rl_triage.json");
  const json golden = json::parse(file);
  ASSERT_EQ(golden["repair"].size(), 7U);
  const double half_print = 0.5 * golden["repair_print_unit"].get<double>() * (1 + 1e-6);
  for (const json& row : golden["repair"]) {
    Data d;
    d.add({0.0}, 1);
    d.sampler[0] = 0.0;
    d.old[0] = d.live[0] = row["mean_delta"];
    const Result r = run(d, repair_only());
    EXPECT_NEAR(r.sums.repair_loss, row["phi"].get<double>(), half_print) << row;
    EXPECT_NEAR(r.sums.repair_force, row["force"].get<double>(), half_print) << row;
    EXPECT_EQ(r.sums.repair_active, row["q"].get<double>() > 0 ? 1 : 0) << row;
  }
}

TEST(Repair, GradientIsTheFormula) {
  // Two windows of one positive response, one window of a negative one: S = 3.
  Data d;
  d.add(std::vector<double>(130, -0.2), 1);
  d.add({-0.2, -0.2}, -1);
  const LossConfig c = repair_only();
  const std::vector<double> g = pull(d, c);
  const double q = 0.2 - 0.03;
  const double force = q / std::sqrt(1 + q * q / 0.0005);
  EXPECT_NEAR(g[0], -0.015 * force / (3.0 * 128.0), 1e-15);
  EXPECT_NEAR(g[129], -0.015 * force / (3.0 * 2.0), 1e-15);
  EXPECT_EQ(g[130], 0.0);
  EXPECT_LE(std::abs(g[129]), 0.015 * std::sqrt(0.0005) / (3.0 * 2.0));
}

TEST(Repair, EverySegmentWithAValidTokenCountsInS) {
  Data d;
  d.add(std::vector<double>(300, 0.0), 1);                                      // 3 windows, inactive
  d.add(std::vector<double>(128, -1.0), -1);                                    // 1, not selected
  d.add(std::vector<double>(128, -1.0), 1, std::vector<std::uint8_t>(128, 0));  // fully masked
  std::vector<std::uint8_t> second_half(256, 0);
  for (std::size_t t = 128; t < 256; ++t) second_half[t] = 1;
  d.add(std::vector<double>(256, -1.0), 1, second_half);  // 1 of 2
  const Prepared p = prepare(d.batch(), repair_only());
  EXPECT_EQ(p.totals.repair_segments, 5);
  EXPECT_EQ(p.totals.responses, 3);
  const Result r = run(d, p, 0, 4);
  EXPECT_EQ(r.sums.repair_active, 1);
}

TEST(Repair, Scopes) {
  Data d;
  d.add({-0.9, 0.3}, 1);
  d.add({-0.9, -0.3}, -1);
  const auto touched = [&](RepairScope scope) {
    std::vector<int> out;
    for (double g : pull(d, repair_only(scope))) out.push_back(g != 0.0 ? 1 : 0);
    return out;
  };
  EXPECT_EQ(touched(RepairScope::adv_positive), (std::vector<int>{1, 1, 0, 0}));
  EXPECT_EQ(touched(RepairScope::whole), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(touched(RepairScope::q2), (std::vector<int>{1, 0, 0, 0}));
  // q2 restricts the gradient, not the value: the window's mean counts all tokens.
  EXPECT_NEAR(pull(d, repair_only(RepairScope::q2))[0], pull(d, repair_only())[0], 1e-16);
}

TEST(Repair, StartStepIsInclusive) {
  Data d;
  d.add({-1.0}, 1);
  LossConfig c = repair_only();
  c.triage.repair.start_step = 3;
  EXPECT_EQ(prepare(d.batch(), c, 2).repair_coef, 0.0);
  EXPECT_EQ(prepare(d.batch(), c, 3).repair_coef, 0.015);
  const Result before = run(d, prepare(d.batch(), c, 2), 0, 1);
  EXPECT_GT(before.sums.repair_loss, 0.0);  // measured before it acts
  EXPECT_EQ(before.loss, before.sums.pg_loss);
}

TEST(Repair, UsesTheLiveGap) {
  Data d;
  d.add({-1.0}, 1);
  d.live[0] = d.sampler[0];
  EXPECT_EQ(run(d, repair_only()).sums.repair_loss, 0.0);
}

TEST(Triage, ZeroAdvantageIsInert) {
  Data d;
  d.add(std::vector<double>(64, -7.0), 0.0);
  const Result r = run(d, triage_config(Normalization::response));
  EXPECT_EQ(r.loss, 0.0);
  for (double g : r.dlogp) EXPECT_EQ(g, 0.0);
  EXPECT_FALSE(triage_active(prepare(d.batch(), triage_config(Normalization::response)), r.sums));
}

TEST(Triage, ZeroGapIsInert) {
  Data d;
  d.add(std::vector<double>(200, 0.0), 1.0);
  d.add(std::vector<double>(200, 0.0), -1.0);
  for (Normalization n : {Normalization::response, Normalization::global}) {
    LossConfig off = triage_config(n);
    off.triage.gate.enable = off.triage.repair.enable = false;
    const Prepared p = prepare(d.batch(), triage_config(n));
    const Result r = run(d, p, 0, 2);
    EXPECT_FALSE(triage_active(p, r.sums));
    EXPECT_TRUE(same_bits(r.dlogp, run(d, off).dlogp));
  }
}

}  // namespace
}  // namespace minite::rl::test
