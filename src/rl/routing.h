#pragma once
// Experts of one step: what the sampler took, what the learner's passes take, and how the two differ.
#include <vector>

#include "learn/learner.h"
#include "learn/run_folder.h"
#include "minite/rl.h"
#include "rl/rollout.h"

namespace minite::rl {

/// Of one rollout; without experts every list stays empty and nothing is measured.
class StepRouting {
 public:
  /// `rollout` must outlive the object.
  StepRouting(const Rollout& rollout, RouterReplay mode);

  /// For the pass for l_old over all responses, before any update.
  [[nodiscard]] Routing old_pass();
  /// For the pass of an update on the responses [begin, end). Without an old pass before it, it stands in for
  /// one: all responses at the weights that sampled.
  [[nodiscard]] Routing update_pass(int64_t begin, int64_t end);
  /// Call after the pass of update_pass(begin, end).
  void count_drift(int64_t begin, int64_t end);

  /// router_mismatch, router_order_mismatch, router_weight_abs_diff and, with replay, router_drift.
  void write(learn::Metrics& metrics) const;

 private:
  const Rollout& rollout_;
  RouterReplay mode_;
  bool recorded_ = false;            ///< used_ and live_ are those of the pass for l_old
  std::vector<Routes> used_, live_;  ///< [responses]
  std::vector<Routes> drifted_;      ///< [responses of the update] live experts of its pass
  RouteDifference drift_;
};

}  // namespace minite::rl
