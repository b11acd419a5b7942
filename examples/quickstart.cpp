// How far are learner and sampler apart, and what does TRIAGE do about it? Needs arrays only: no model, no
// GPU.
#include <cstdint>
#include <iostream>
#include <vector>

#include "minite/rl.h"

int main() {
  namespace rl = minite::rl;
  // Two responses of three tokens; the sampler and the learner disagree about the second.
  const std::vector<std::int64_t> offsets = {0, 3, 6};
  const std::vector<double> logp_sampler = {-0.1, -0.7, -0.2, -0.3, -0.5, -0.4};
  const std::vector<double> logp_learner = {-0.1, -0.7, -0.2, -1.9, -1.3, -1.0};
  const std::vector<std::uint8_t> mask = {1, 1, 1, 1, 1, 1};
  const std::vector<double> rewards = {1.0, 0.0};

  std::vector<double> advantage(2), per_token(6);
  rl::group_advantages(rl::AdvEstimator::grpo, 2, rewards, advantage);
  rl::broadcast_advantage(offsets, advantage, per_token);
  const rl::Batch batch{offsets, logp_sampler, logp_learner, mask, per_token};

  const rl::GapStats gap = rl::gap_stats(batch);
  std::cout << "mean gap " << gap.abs_mean << ", largest " << gap.abs_max << '\n';

  rl::LossConfig config;
  config.rollout_is = rl::RolloutIs::token;  // truncated importance sampling
  config.triage.gate.enable = true;
  const rl::Prepared prepared = rl::prepare(batch, config);
  for (std::size_t t = 0; t < mask.size(); ++t) {
    std::cout << "token " << t << ": correction " << prepared.is_weight[t] << ", gate weight "
              << prepared.gate_units[t] / 100.0 << '\n';
  }
}
