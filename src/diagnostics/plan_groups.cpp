#include "diagnostics/plan_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "diagnostics/headline.h"

namespace minite::diagnostics {
namespace {

/// Sentences that differ in module and shape only.
struct Group {
  std::string who;  ///< "learner fprop"
  std::string how;
  int64_t count = 0;
};

// "learner layers.0.qkv fprop: KERNEL: A x B -> C, N=256 K=96, ORDER" without the module and the shape.
Group group_of(const std::string& plan) {
  Group group{"", plan, 1};
  const size_t colon = plan.find(": ");
  if (colon == std::string::npos) return group;
  const std::string head = plan.substr(0, colon);
  const size_t first = head.find(' '), last = head.rfind(' ');
  if (first == std::string::npos || first == last) return group;
  group.who = head.substr(0, first) + head.substr(last);
  group.how = plan.substr(colon + 2);
  const size_t shape = group.how.find(", N=");
  if (shape == std::string::npos) return group;
  const size_t end = group.how.find(", ", shape + 2);
  group.how.erase(shape, end == std::string::npos ? end : end - shape);
  return group;
}

std::vector<Group> groups_of(const nlohmann::json& plans) {
  std::vector<Group> groups;
  for (const auto& plan : plans) {
    if (!plan.is_string()) continue;
    Group group = group_of(plan.get<std::string>());
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Group& g) { return g.who == group.who && g.how == group.how; });
    same == groups.end() ? groups.push_back(std::move(group)) : static_cast<void>(++same->count);
  }
  return groups;
}

}  // namespace

std::string plans_text(const RunData& run) {
  std::string text;
  for (const auto stage : kStages) {
    if (!run.plans.is_object() || !run.plans.contains(stage) || !run.plans[std::string(stage)].is_array())
      continue;
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", stage);
    for (const Group& g : groups_of(run.plans[std::string(stage)])) {
      text +=
          g.who.empty() ? fmt::format("  {}\n", g.how) : fmt::format("  {} x{}: {}\n", g.who, g.count, g.how);
    }
  }
  return text;
}

}  // namespace minite::diagnostics
