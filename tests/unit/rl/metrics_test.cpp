#include <cmath>
#include <map>
#include <set>

#include "rl_support.h"

namespace minite::rl::test {
namespace {

std::map<std::string, double> metric_map(const Data& d, const LossConfig& c) {
  const Prepared p = prepare(d.batch(), c);
  const Result r = run(d, p, 0, d.batch().n_responses());
  const auto values = metrics(d.batch(), p, r.sums);
  return {values.begin(), values.end()};
}

TEST(Metrics, TableIsCompleteAndInOrder) {
  std::set<std::string_view> names;
  std::set<std::pair<std::string_view, std::string>> places;
  std::vector<std::string> order;
  for (const MetricInfo& m : metric_table()) {
    for (const char* stage : {"sft", "rl", "contrast"}) {
      if (!in_stage(m, stage)) continue;
      EXPECT_TRUE(places.emplace(m.name, stage).second) << m.name << " of " << stage;
    }
    for (const std::string_view field : {m.name, m.definition, m.unit, m.range, m.healthy})
      EXPECT_FALSE(field.empty()) << m.name;
    EXPECT_FALSE(m.slime.empty() && m.verl.empty() && m.source.empty()) << m.name << ": whose is it?";
    names.insert(m.name);
    order.emplace_back(m.name);
  }
  for (const char* name :
       {"pg_loss", "entropy_loss", "ppo_kl", "pg_clipfrac", "train_rollout_logprob_abs_diff", "ois", "tis",
        "tis_clipfrac", "tis_abs", "triage_gate_weight_mean", "triage_token_weight_mean",
        "triage_repair_loss", "triage_repair_contribution", "triage_repair_active_segment_fraction",
        "triage_repair_valid_segments_per_seq", "triage_repair_mean_delta", "triage_repair_force_mean",
        "triage_repair_scope_token_fraction"}) {
    EXPECT_EQ(names.count(name), 1U) << name;
  }
  LossConfig c = triage_config(Normalization::response);
  c.clip_ratio_c = 3.0;
  c.rollout_rs = parse_rollout_rs("token_k1", "0.5_2");
  c.opsm_delta = 0.1;
  Data d = random_data({30, 40}, 41);
  add_reference(d, 41);
  const Prepared p = prepare(d.batch(), c);
  const auto values = metrics(d.batch(), p, run(d, p, 0, 2).sums);
  ASSERT_LT(values.size(), order.size()) << "the rows of a step follow";
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i].first, order[i]);
}

TEST(Metrics, RowsThatDoNotApplyAreAbsent) {
  Data d;
  d.add({0.0}, 1.0);
  const Prepared p = prepare(d.batch(), {});
  std::vector<double> dlogp(1);
  MetricSums sums;
  (void)evaluate(d.batch(), p, 0, 1, {d.live, {}}, {dlogp, {}}, sums);
  for (const auto& [name, value] : metrics(d.batch(), p, sums)) {
    EXPECT_FALSE(name.starts_with("triage_")) << name;
    EXPECT_NE(name, "entropy_loss");
    EXPECT_NE(name, "kl_loss");
    EXPECT_FALSE(name.starts_with("rollout_rs_")) << name;
    EXPECT_NE(name, "pg_clipfrac_lower");
  }
}

TEST(Metrics, GapStatistics) {
  Data d;
  d.add({0.5, -1.5, 99.0}, 1, {1, 1, 0});
  d.add({-0.25, 0.25}, -1);
  const GapStats s = gap_stats(d.batch());
  EXPECT_EQ(s.tokens, 4);
  EXPECT_EQ(s.abs_mean, 2.5 / 4);
  EXPECT_EQ(s.abs_max, 1.5);
  EXPECT_EQ(s.response_max, 1.0);
  EXPECT_EQ(s.k1, 0.25);
  double k3 = 0.0;
  for (double x : {0.5, -1.5, -0.25, 0.25}) k3 += std::exp(x) - x - 1;
  EXPECT_NEAR(s.k3, k3 / 4, 1e-15);
  // Sorted -1.5, -0.25, 0.25, 0.5; position 3 * 0.05 = 0.15.
  EXPECT_NEAR(s.q05, -1.5 + 0.15 * 1.25, 1e-15);
  EXPECT_NEAR(s.q01, -1.5 + 0.03 * 1.25, 1e-15);
  std::vector<double> diff;
  for (double x : {0.5, -1.5, -0.25, 0.25}) diff.push_back(std::abs(std::exp(-1 + x) - std::exp(-1.0)));
  double mean = 0.0;
  for (double v : diff) mean += v / 4;
  double squares = 0.0;
  for (double v : diff) squares += (v - mean) * (v - mean);
  EXPECT_NEAR(s.prob_abs_mean, mean, 1e-15);
  EXPECT_NEAR(s.prob_abs_max, std::exp(-1.0) - std::exp(-2.5), 1e-15);
  EXPECT_NEAR(s.prob_abs_std, std::sqrt(squares / 3), 1e-15);
}

TEST(Metrics, GapStatisticsOfResponses) {
  Data d;
  d.add({0.5, -1.5, 99.0}, 1, {1, 1, 0});
  d.add({-0.25, 0.25}, -1);
  d.add({-7.0}, 1);
  d.add({0.01, 0.04}, 1);
  const GapStats s = gap_stats(d.batch());
  EXPECT_EQ(s.response_max, 7.0);
  EXPECT_NEAR(s.response_q50, (0.25 + 1.0) / 2, 1e-15);  // 0.025, 0.25, 1, 7
  EXPECT_NEAR(s.response_q95, 1.0 + 0.85 * 6.0, 1e-14);
  EXPECT_DOUBLE_EQ(s.tail_fraction, 1.0 / 7);
  EXPECT_DOUBLE_EQ(s.within_fraction, 2.0 / 7);
  double k2 = 0, mult = 0, chi2 = 0;
  for (double x : {0.5, -1.5, -0.25, 0.25, -7.0, 0.01, 0.04}) {
    k2 += x * x / 14, mult += std::exp(std::abs(x)) / 7, chi2 += std::exp(2 * x) / 7;
  }
  EXPECT_NEAR(s.k2, k2, 1e-14);
  EXPECT_NEAR(s.mult_prob_error, mult, 1e-12);
  EXPECT_NEAR(s.chi2_token, chi2 - 1, 1e-14);
  const std::vector<double> sums = {-1.0, 0.0, -7.0, 0.05};
  double chi2_seq = 0;
  for (double x : sums) chi2_seq += std::exp(2 * x) / 4;
  EXPECT_NEAR(s.chi2_seq, chi2_seq - 1, 1e-14);
  const std::vector<double> means = {-0.5, 0.0, -7.0, 0.025};  // of l_old - l_sampler
  double training = 0, ratio = 0;
  for (double m : means) training += std::exp(1.0 - m) / 4, ratio += std::exp(-m) / 4;
  EXPECT_NEAR(s.training_ppl, training, 1e-11);
  EXPECT_NEAR(s.rollout_ppl, std::exp(1.0), 1e-14);
  EXPECT_NEAR(s.log_ppl_diff, 7.475 / 4, 1e-14);
  EXPECT_NEAR(s.log_ppl_abs_diff, 7.525 / 4, 1e-14);
  EXPECT_NEAR(s.ppl_ratio, ratio, 1e-11);
  EXPECT_EQ(s.prob_pearson, 0.0) << "the sampler's side is constant and the sides differ";
}

TEST(Metrics, PearsonCorrelation) {
  Data d;
  d.add({0.0, 0.0, 0.0}, 1);
  EXPECT_EQ(gap_stats(d.batch()).prob_pearson, 1.0) << "constant, and equal";
  d.sampler = d.old = {-0.1, -2.0, -0.7};
  EXPECT_EQ(gap_stats(d.batch()).prob_pearson, 1.0);
  for (double& x : d.old) x = std::log(0.5 * std::exp(x) + 0.1);  // a straight line
  EXPECT_NEAR(gap_stats(d.batch()).prob_pearson, 1.0, 1e-14);
  for (std::size_t t = 0; t < 3; ++t) d.old[t] = std::log(1.0 - 0.9 * std::exp(d.sampler[t]));
  EXPECT_NEAR(gap_stats(d.batch()).prob_pearson, -1.0, 1e-14);
}

TEST(Metrics, ImportanceRows) {
  Data d;
  d.add({std::log(0.25), std::log(0.5), std::log(8.0), 0.0}, 1);
  LossConfig c;
  c.rollout_is = RolloutIs::token;
  c.rollout_is_threshold = {0.4, 2.0, OutOfRange::truncate};
  const auto m = metric_map(d, c);
  EXPECT_DOUBLE_EQ(m.at("rollout_is_min"), 0.25);
  EXPECT_DOUBLE_EQ(m.at("rollout_is_max"), 8.0);
  EXPECT_EQ(m.at("rollout_is_ratio_fraction_high"), 0.25);
  EXPECT_EQ(m.at("rollout_is_ratio_fraction_low"), 0.25);
  const double mean = 9.75 / 4, square = (0.0625 + 0.25 + 64 + 1) / 4;
  EXPECT_NEAR(m.at("rollout_is_std"), std::sqrt(square - mean * mean), 1e-13);
  const double sum = 0.4 + 0.5 + 2 + 1, squares = 0.16 + 0.25 + 4 + 1;  // weights, not ratios
  EXPECT_NEAR(m.at("rollout_is_eff_sample_size"), sum * sum / (4 * squares), 1e-14);
  c.rollout_is_threshold = {20.0, 30.0, OutOfRange::mask};
  EXPECT_EQ(metric_map(d, c).at("rollout_is_eff_sample_size"), 0.0);
  EXPECT_EQ(metric_map(d, {}).at("rollout_is_eff_sample_size"), 1.0) << "no correction: every weight is 1";
}

TEST(Metrics, MatchedExecutionIsExactlyZero) {
  Data d;
  d.add(std::vector<double>(100, 0.0), 1);
  const auto m = metric_map(d, triage_config(Normalization::response));
  for (const char* name : {"train_rollout_logprob_abs_diff",
                           "gap_max",
                           "gap_q05",
                           "mismatch_kl",
                           "mismatch_k3_kl",
                           "rollout_probs_diff_max",
                           "tis_abs",
                           "tis_clipfrac",
                           "ppo_kl",
                           "triage_active",
                           "triage_repair_loss",
                           "triage_repair_active_segment_fraction",
                           "gap_response_q95",
                           "gap_tail_fraction",
                           "mismatch_k2_kl",
                           "chi2_token",
                           "chi2_seq",
                           "log_ppl_diff",
                           "log_ppl_abs_diff",
                           "rollout_is_std",
                           "rollout_is_ratio_fraction_high",
                           "rollout_is_ratio_fraction_low"}) {
    EXPECT_EQ(m.at(name), 0.0) << name;
  }
  for (const char* name :
       {"rollout_actor_probs_pearson_corr", "token_mult_prob_error", "ppl_ratio", "gap_within_fraction",
        "rollout_is_min", "rollout_is_max", "rollout_is_eff_sample_size"}) {
    EXPECT_EQ(m.at(name), 1.0) << name;
  }
  EXPECT_EQ(m.at("tis"), 1.0);
  EXPECT_EQ(m.at("ois"), 1.0);
  EXPECT_EQ(m.at("triage_token_weight_mean"), 1.0);
}

TEST(Metrics, TriageRows) {
  Data d;
  d.add(std::vector<double>(64, -2.0), -1);  // gated to 0.1; one Repair window, not in scope
  d.add(std::vector<double>(200, -0.2), 1);  // two active windows
  const auto m = metric_map(d, triage_config(Normalization::response));
  const double q = 0.17;
  const double force = q / std::sqrt(1 + q * q / 0.0005);
  const double phi = 0.0005 * (std::sqrt(1 + q * q / 0.0005) - 1);
  EXPECT_EQ(m.at("triage_active"), 1.0);
  EXPECT_DOUBLE_EQ(m.at("triage_gate_weight_mean"), (6.4 + 200) / 264);
  EXPECT_NEAR(m.at("triage_repair_loss"), 2 * phi / 3, 1e-15);
  EXPECT_NEAR(m.at("triage_repair_contribution"), 0.015 * 2 * phi / 3, 1e-15);
  EXPECT_DOUBLE_EQ(m.at("triage_repair_active_segment_fraction"), 2.0 / 3);
  EXPECT_EQ(m.at("triage_repair_valid_segments_per_seq"), 1.5);
  EXPECT_NEAR(m.at("triage_repair_mean_delta"), -0.4 / 3, 1e-14);
  EXPECT_NEAR(m.at("triage_repair_force_mean"), 2 * force / 3, 1e-14);
  EXPECT_DOUBLE_EQ(m.at("triage_repair_scope_token_fraction"), 2.0 / 3);
  EXPECT_NEAR(m.at("loss"), m.at("pg_loss") + m.at("triage_repair_contribution"), 1e-16);
}

// log_softmax(z / T) is not log_softmax(z) / T: a sampler that scales its log-probs afterwards shows as a
// gap.
TEST(Metrics, ScaledLogProbsAreAGap) {
  const std::vector<double> logits = {2.0, 0.5, -1.0};
  const double temperature = 0.6;
  const auto log_softmax = [&](double t) {
    double sum = 0.0;
    for (double z : logits) sum += std::exp(z / t);
    return logits[0] / t - std::log(sum);
  };
  Data d;
  d.add({0.0}, 1.0);
  d.old[0] = log_softmax(temperature);
  d.sampler[0] = log_softmax(temperature);
  EXPECT_EQ(gap_stats(d.batch()).abs_mean, 0.0);
  d.sampler[0] = log_softmax(1.0) / temperature;
  EXPECT_GT(gap_stats(d.batch()).abs_mean, 0.2);
  d.sampler[0] = log_softmax(1.0);  // not tempered at all
  EXPECT_GT(gap_stats(d.batch()).abs_mean, 0.1);
}

TEST(Metrics, PolicyRows) {
  Data d;
  d.add({1.0, 0.0}, 1);
  d.live[0] = d.old[0] + 1.0;
  LossConfig c;
  c.rollout_is = RolloutIs::token;
  const auto m = metric_map(d, c);
  EXPECT_DOUBLE_EQ(m.at("ppo_kl"), -0.5);
  EXPECT_EQ(m.at("pg_clipfrac"), 0.5);
  EXPECT_DOUBLE_EQ(m.at("ois"), (std::exp(1.0) + 1) / 2);
  EXPECT_DOUBLE_EQ(m.at("tis"), (std::exp(1.0) + 1) / 2);
  EXPECT_DOUBLE_EQ(m.at("tis_abs"), (std::exp(1.0) - 1) / 2);
  EXPECT_EQ(m.at("tis_clipfrac"), 0.5);
  EXPECT_EQ(m.at("entropy_loss"), 1.0);
  EXPECT_DOUBLE_EQ(m.at("pg_loss"), -(2 * 1.28 + 1) / 2);
}

TEST(Metrics, RefusesAnIncompleteUpdate) {
  const Data d = random_data({30, 40}, 42);
  const Prepared p = prepare(d.batch(), {});
  const Result half = run(d, p, 0, 1);
  expect_error(ErrorCode::invalid_argument, {"evaluate every response once"},
               [&] { (void)metrics(d.batch(), p, half.sums); });
}

}  // namespace
}  // namespace minite::rl::test
