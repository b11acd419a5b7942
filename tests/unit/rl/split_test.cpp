// Micro-batches with frozen global denominators: every split gives the same update.
#include <cmath>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

TEST(Split, GradientBitsDoNotDependOnTheSplit) {
  Data d = random_data({150, 64, 7, 200, 1, 129}, 31);
  add_reference(d, 31);
  LossConfig sums_config;
  sums_config.entropy_coef = 0.1;
  sums_config.loss_agg_mode = LossAggMode::seq_mean_token_sum;
  LossConfig gspo_config;
  gspo_config.loss_mode = LossMode::gspo;
  gspo_config.loss_agg_mode = LossAggMode::token_mean;
  gspo_config.kl_loss_coef = 0.1;
  gspo_config.rollout_is = RolloutIs::token;
  gspo_config.rollout_is_batch_normalize = true;
  gspo_config.rollout_rs = parse_rollout_rs("token_k1", "0.8_3");
  for (const LossConfig& c : {sums_config, gspo_config, triage_config(Normalization::response),
                              triage_config(Normalization::global)}) {
    const Prepared p = prepare(d.batch(), c);
    const Result whole = run(d, p, 0, 6);
    for (unsigned cuts = 0; cuts < 32; ++cuts) {  // every way to cut between the six responses
      Result parts;
      double in_order = 0.0;
      std::int64_t begin = 0;
      for (std::int64_t end = 1; end <= 6; ++end) {
        if (end < 6 && (cuts >> (end - 1) & 1U) == 0) continue;
        const Result r = run(d, p, begin, end);
        parts.dlogp.insert(parts.dlogp.end(), r.dlogp.begin(), r.dlogp.end());
        parts.dentropy.insert(parts.dentropy.end(), r.dentropy.begin(), r.dentropy.end());
        parts.sums += r.sums;
        in_order += r.loss;
        begin = end;
      }
      EXPECT_TRUE(same_bits(parts.dlogp, whole.dlogp)) << cuts;
      EXPECT_TRUE(same_bits(parts.dentropy, whole.dentropy)) << cuts;
      EXPECT_NEAR(in_order, whole.loss, 1e-14 * (1 + std::abs(whole.loss)));
      EXPECT_EQ(parts.sums.tokens, whole.sums.tokens);
      EXPECT_EQ(parts.sums.clipped, whole.sums.clipped);
      EXPECT_NEAR(parts.sums.kl_loss, whole.sums.kl_loss, 1e-13 * (1 + whole.sums.kl_loss));
      EXPECT_NEAR(parts.sums.repair_loss, whole.sums.repair_loss, 1e-15);
    }
  }
}

TEST(Split, OneSumsObjectGivesTheSameBits) {
  const Data d = random_data({150, 64, 7, 200}, 32);
  const Prepared p = prepare(d.batch(), triage_config(Normalization::response));
  const Result whole = run(d, p, 0, 4);
  MetricSums sums;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto first = static_cast<std::size_t>(d.offsets[i]);
    const auto n = static_cast<std::size_t>(d.offsets[i + 1]) - first;
    std::vector<double> dlogp(n);
    (void)evaluate(d.batch(), p, i, i + 1, {std::span(d.live).subspan(first, n), {}}, {dlogp, {}}, sums);
  }
  EXPECT_EQ(sums.loss, whole.loss);
  EXPECT_EQ(sums.pg_loss, whole.sums.pg_loss);
  EXPECT_EQ(sums.ppo_kl, whole.sums.ppo_kl);
  EXPECT_EQ(sums.ratio, whole.sums.ratio);
  EXPECT_EQ(sums.repair_force, whole.sums.repair_force);
}

// Two ranks that sum their totals before evaluate() compute the update of one rank with all responses.
TEST(Split, TotalsAddOverRanks) {
  const Data all = random_data({90, 140, 30, 60}, 33);
  const auto slice = [&](std::size_t begin, std::size_t end) {
    Data d;
    const auto cut = [&](const auto& v) {
      return std::vector(v.begin() + all.offsets[begin], v.begin() + all.offsets[end]);
    };
    d.sampler = cut(all.sampler);
    d.old = cut(all.old);
    d.live = cut(all.live);
    d.entropy = cut(all.entropy);
    d.advantage = cut(all.advantage);
    d.mask = cut(all.mask);
    d.offsets.clear();
    for (std::size_t i = begin; i <= end; ++i) d.offsets.push_back(all.offsets[i] - all.offsets[begin]);
    return d;
  };
  for (Normalization n : {Normalization::response, Normalization::global}) {
    LossConfig c = triage_config(n);
    c.rollout_is_batch_normalize = true;
    const Result whole = run(all, c);
    const Data a = slice(0, 1);
    const Data b = slice(1, 4);
    Prepared pa = prepare(a.batch(), c);
    Prepared pb = prepare(b.batch(), c);
    Totals totals = pa.totals;
    totals += pb.totals;
    pa.totals = pb.totals = totals;
    IsSums sums = pa.is_sums;
    sums += pb.is_sums;
    pa.is_sums = pb.is_sums = sums;
    Result ra = run(a, pa, 0, 1);
    const Result rb = run(b, pb, 0, 3);
    ra.dlogp.insert(ra.dlogp.end(), rb.dlogp.begin(), rb.dlogp.end());
    ASSERT_EQ(ra.dlogp.size(), whole.dlogp.size());
    for (std::size_t t = 0; t < ra.dlogp.size(); ++t) {  // the mean weight is a sum of doubles over ranks
      EXPECT_NEAR(ra.dlogp[t], whole.dlogp[t], 1e-15 * (1 + std::abs(whole.dlogp[t])));
    }
    EXPECT_NEAR(ra.loss + rb.loss, whole.loss, 1e-14);
  }
}

}  // namespace
}  // namespace minite::rl::test
