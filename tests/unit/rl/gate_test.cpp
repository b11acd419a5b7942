// Gate weights against tests/golden/rl_triage.json, window borders and the exact normaliser.
#include <fstream>
#include <nlohmann/json.hpp>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

using nlohmann::json;

std::vector<int> gate(const Data& d, const std::function<void(GateConfig&)>& change = {}) {
  LossConfig c;
  c.triage.gate.enable = true;
  if (change) change(c.triage.gate);
  const Prepared p = prepare(d.batch(), c);
  return {p.gate_units.begin(), p.gate_units.end()};
}

TEST(Gate, GoldenCases) {
  std::ifstream file(MINITE_SOURCE_DIR "/tests/golden/rl_triage.json");
  const json golden = json::parse(file);
  ASSERT_EQ(golden["gate"].size(), 10U);
  for (const json& row : golden["gate"]) {
    auto delta = row["delta"].get<std::vector<double>>();
    auto weights = row["weights"].get<std::vector<int>>();
    if (row.contains("fill")) {
      delta.resize(delta.size() + row["fill"][1].get<std::size_t>(), row["fill"][0].get<double>());
      weights.resize(delta.size(), row["fill_weight"].get<int>());
    }
    Data d;
    d.add(delta, row["advantage"], row.value("mask", std::vector<std::uint8_t>{}));
    EXPECT_EQ(gate(d), weights) << row["name"];
  }
}

TEST(Gate, WholeScopeWeighsEveryValidToken) {
  Data d;
  d.add({-4, -4, 0, 0.5}, -1, {1, 1, 1, 0});
  EXPECT_EQ(gate(d, [](auto& g) { g.scope = GateScope::whole; }), (std::vector<int>{10, 10, 10, 0}));
}

TEST(Gate, WindowsAreFixedByPosition) {
  // Masked positions keep their place: position 64 starts the second window although 60 are masked.
  Data d;
  std::vector<double> delta(70, -2.0);
  for (std::size_t t = 64; t < 70; ++t) delta[t] = -0.25;
  std::vector<std::uint8_t> mask(70, 1);
  for (std::size_t t = 0; t < 60; ++t) mask[t] = 0;
  d.add(delta, -1, mask);
  const std::vector<int> units = gate(d);
  for (std::size_t t = 0; t < 70; ++t) EXPECT_EQ(units[t], t < 60 ? 0 : (t < 64 ? 10 : 100)) << t;
}

TEST(Gate, MinimumOfMeanAndTail) {
  Data d;
  d.add({-6.5, 0.0, 0.0, 0.0, 0.0}, -1);  // mean -1.3: 30, one deep token: 55
  EXPECT_EQ(gate(d)[0], 30);
  d = {};
  d.add({-6.5, -6.5, -6.5, 20.0}, -1);  // mean above 0, three deep tokens
  EXPECT_EQ(gate(d), (std::vector<int>{10, 10, 10, 100}));
}

TEST(Gate, TailWeightsRoundToHundredths) {
  Data d;
  d.add({-6.5, 20.0}, -1);
  EXPECT_EQ(gate(d, [](auto& g) { g.bad_count_full = 3; })[0], 70);
  EXPECT_EQ(gate(d, [](auto& g) { g.bad_count_full = 7; })[0], 87);  // 100 - 90/7 = 87.14
}

TEST(Gate, MeanAdvantageOfTheWindowDecides) {
  Data d;
  d.add({-2, -2, -2}, -1);
  d.advantage = {-1, 3, -1};
  EXPECT_EQ(gate(d), (std::vector<int>{100, 100, 100}));
  d.advantage = {-1, 1, -1};
  EXPECT_EQ(gate(d), (std::vector<int>{10, 10, 10}));
}

TEST(Gate, GlobalNormaliserIsAnExactInteger) {
  Data d;
  d.add({-1.2, -1.2}, -1);
  d.add({0, 0, 0, 0}, 1);
  const Prepared p = prepare(d.batch(), triage_config(Normalization::global));
  EXPECT_EQ(p.totals.weight_units, 460);
  EXPECT_EQ(p.response_units, (std::vector<std::int64_t>{60, 400}));
}

// Under `response` a uniform weight cancels, bit for bit: the documented redistribution.
TEST(Gate, UniformAttenuationCancelsUnderResponseOnly) {
  Data d;
  d.add(std::vector<double>(64, -2.0), -1);
  d.add(std::vector<double>(64, 0.0), 1);
  for (Normalization n : {Normalization::response, Normalization::global}) {
    LossConfig on = triage_config(n);
    on.triage.repair.enable = false;
    LossConfig off = on;
    off.triage.gate.enable = false;
    const Result gated = run(d, on);
    const Result plain = run(d, off);
    if (n == Normalization::response) {
      EXPECT_TRUE(same_bits(gated.dlogp, plain.dlogp));
      EXPECT_EQ(gated.loss, plain.loss);
    } else {
      EXPECT_DOUBLE_EQ(gated.dlogp[0] / plain.dlogp[0], 10.0 / 7040.0 * 128.0);
      EXPECT_DOUBLE_EQ(gated.dlogp[64] / plain.dlogp[64], 100.0 / 7040.0 * 128.0);
    }
  }
}

}  // namespace
}  // namespace minite::rl::test
