// Whatever lies under a mask changes no bit of weights, loss, gradient or metrics.
#include <limits>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

std::vector<LossConfig> configs() {
  LossConfig plain;
  plain.loss_agg_mode = LossAggMode::token_sum;
  plain.entropy_coef = 0.2;
  plain.clip_ratio_c = 3.0;
  plain.rollout_is = RolloutIs::sequence;
  LossConfig ice = plain;
  ice.rollout_is = RolloutIs::token;
  ice.rollout_is_threshold = parse_is_threshold("0.5_5.0");
  LossConfig q2 = triage_config(Normalization::response);
  q2.triage.repair.scope = RepairScope::q2;
  q2.triage.gate.scope = GateScope::whole;
  LossConfig gspo = plain;
  gspo.loss_mode = LossMode::gspo;
  gspo.clip_ratio_c.reset();
  gspo.kl_loss_coef = 0.1;
  LossConfig cispo = gspo;
  cispo.loss_mode = LossMode::cispo;
  cispo.kl_loss_type = KlLossType::k2;
  cispo.rollout_rs = parse_rollout_rs("token_k3,seq_mean_k1,seq_max_k2", "0.3,0.1_4,60");
  cispo.rollout_is_batch_normalize = true;
  LossConfig geo_mean = gspo;
  geo_mean.loss_mode = LossMode::geo_mean;
  geo_mean.rollout_is = RolloutIs::geometric;
  LossConfig sapo = gspo;
  sapo.loss_mode = LossMode::sapo;
  sapo.rollout_is = RolloutIs::none;
  sapo.bypass_mode = true;
  sapo.opsm_delta = 0.01;
  return {plain,
          geo_mean,
          sapo,
          ice,
          q2,
          gspo,
          cispo,
          triage_config(Normalization::response),
          triage_config(Normalization::global)};
}

std::vector<double> metric_values(const Data& d, const Prepared& p, const Result& r) {
  std::vector<double> out;
  for (const auto& [name, value] : metrics(d.batch(), p, r.sums)) out.push_back(value);
  return out;
}

TEST(Mask, GarbageUnderTheMaskChangesNoBit) {
  Data clean = random_data({150, 64, 7, 200}, 21);
  add_reference(clean, 21);
  for (const LossConfig& c : configs()) {
    const Prepared p = prepare(clean.batch(), c);
    const Result expected = run(clean, p, 0, 4);
    for (double garbage : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), 1e30, -1e30}) {
      Data dirty = clean;
      for (std::size_t t = 0; t < dirty.mask.size(); ++t) {
        if (dirty.mask[t] != 0) continue;
        dirty.sampler[t] = dirty.old[t] = dirty.live[t] = dirty.advantage[t] = dirty.entropy[t] = garbage;
        dirty.ref[t] = garbage;
      }
      const Prepared q = prepare(dirty.batch(), c);
      const Result r = run(dirty, q, 0, 4);
      EXPECT_EQ(std::bit_cast<std::uint64_t>(r.loss), std::bit_cast<std::uint64_t>(expected.loss)) << garbage;
      EXPECT_TRUE(same_bits(r.dlogp, expected.dlogp)) << garbage;
      EXPECT_TRUE(same_bits(r.dentropy, expected.dentropy)) << garbage;
      EXPECT_TRUE(same_bits(q.is_weight, p.is_weight)) << garbage;
      EXPECT_EQ(q.gate_units, p.gate_units) << garbage;
      EXPECT_TRUE(same_bits(metric_values(dirty, q, r), metric_values(clean, p, expected))) << garbage;
    }
  }
}

// A fully masked response is skipped: same loss and counts as a batch without it.
TEST(Mask, FullyMaskedResponseIsNotCounted) {
  Data without = random_data({40, 30}, 22);
  add_reference(without, 22);
  Data with = without;
  const std::vector<double> nan(129, std::numeric_limits<double>::quiet_NaN());
  with.ref.insert(with.ref.end(), nan.begin(), nan.end());
  with.add(nan, 1.0, std::vector<std::uint8_t>(129, 0));
  for (const LossConfig& c : configs()) {
    const Prepared p = prepare(without.batch(), c);
    const Prepared q = prepare(with.batch(), c);
    EXPECT_EQ(q.totals.responses, 2);
    EXPECT_EQ(q.totals.repair_segments, 2);
    EXPECT_EQ(q.totals.weight_units, p.totals.weight_units);
    const Result a = run(without, p, 0, 2);
    const Result b = run(with, q, 0, 3);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.loss), std::bit_cast<std::uint64_t>(b.loss));
    for (std::size_t t = 70; t < b.dlogp.size(); ++t) EXPECT_EQ(b.dlogp[t], 0.0);
  }
}

TEST(Mask, NothingValidIsZeroLossAndNoMetrics) {
  Data d;
  d.add({0.0, 0.0}, 1.0, {0, 0});
  const Prepared p = prepare(d.batch(), {});
  EXPECT_EQ(p.totals.responses, 0);
  const Result r = run(d, p, 0, 1);
  EXPECT_EQ(r.loss, 0.0);
  EXPECT_EQ(r.dlogp, (std::vector<double>{0, 0}));
  expect_error(ErrorCode::invalid_argument, {"no valid token"}, [&] { (void)metrics(d.batch(), p, r.sums); });
  expect_error(ErrorCode::invalid_argument, {"no valid token"}, [&] { (void)gap_stats(d.batch()); });
}

}  // namespace
}  // namespace minite::rl::test
