#include "rl/routing.h"

#include "rl/replay.h"

namespace minite::rl {
namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

RouteDifference total(std::span<const Routes> a, std::span<const Routes> b) {
  RouteDifference d;
  for (size_t i = 0; i < a.size(); ++i) d += compare_routes(a[i], b[i]);
  return d;
}

}  // namespace

StepRouting::StepRouting(const Rollout& rollout, RouterReplay mode)
    : rollout_(rollout), mode_(mode), used_(rollout.routes.size()), live_(rollout.routes.size()) {}

Routing StepRouting::old_pass() {
  recorded_ = true;
  std::span<const Routes> replay;
  if (row_of(kRouterReplay, mode_).old_pass) replay = rollout_.routes;
  return {replay, used_, live_};
}

Routing StepRouting::update_pass(int64_t begin, int64_t end) {
  if (rollout_.routes.empty()) return {};
  if (!recorded_) return old_pass();
  if (!row_of(kRouterReplay, mode_).updates) return {};
  const auto n = static_cast<size_t>(end - begin);
  drifted_.assign(n, {});
  return {std::span(used_).subspan(static_cast<size_t>(begin), n), {}, drifted_};
}

void StepRouting::count_drift(int64_t begin, int64_t end) {
  if (drifted_.empty()) return;
  drift_ +=
      total(drifted_, std::span(used_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

void StepRouting::write(learn::Metrics& metrics) const {
  if (rollout_.routes.empty()) return;
  const RouteDifference live = total(live_, rollout_.routes), used = total(used_, rollout_.routes);
  metrics["router_mismatch"] = share(live.experts, live.rows);
  metrics["router_order_mismatch"] = share(live.order, live.rows);
  metrics["router_weight_abs_diff"] =
      used.weights == 0 ? 0.0 : used.weight_abs_sum / static_cast<double>(used.weights);
  if (row_of(kRouterReplay, mode_).updates) metrics["router_drift"] = share(drift_.experts, drift_.rows);
}

}  // namespace minite::rl
