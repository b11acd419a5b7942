#include "checkpoints/fused.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

namespace minite::checkpoints {
namespace {

struct Fusion {
  std::string_view whole;
  std::array<std::string_view, 3> parts;
};
constexpr std::array<Fusion, 5> kFusions = {{
    {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
    {"gate_up_proj", {"gate_proj", "up_proj", ""}},
    {"w13", {"w1", "w3", ""}},
    {"fused_qkv_a_proj", {"q_a_proj", "kv_a_proj_with_mqa", ""}},
    {"to_qkv", {"to_q", "to_k", "to_v"}},
}};

bool is_cross(std::string_view prefix) {
  return prefix.find("cross") != std::string_view::npos || prefix.find("attn2") != std::string_view::npos;
}

/// Behind the last dot.
std::string_view last_part(std::string_view module) {
  const size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

}  // namespace

std::string fused_name(std::string_view module) {
  const std::string_view last = last_part(module), prefix = module.substr(0, module.size() - last.size());
  for (const Fusion& fusion : kFusions) {
    for (const std::string_view part : fusion.parts) {
      if (part.empty() || part != last) continue;
      // Gate and up read one input wherever they are.
      if (fusion.parts[2].empty() || !is_cross(prefix))
        return std::string(prefix) + std::string(fusion.whole);
    }
  }
  return {};
}

int fused_parts(std::string_view module) {
  for (const Fusion& fusion : kFusions) {
    if (last_part(module) == fusion.whole) return fusion.parts[2].empty() ? 2 : 3;
  }
  return 1;
}

namespace {
/// Place of `module` among the parts of its fusion: q before k before v, as servers stack them.
int64_t part_index(std::string_view module) {
  for (const Fusion& fusion : kFusions) {
    for (size_t p = 0; p < fusion.parts.size(); ++p) {
      if (!fusion.parts[p].empty() && fusion.parts[p] == last_part(module)) return static_cast<int64_t>(p);
    }
  }
  return 0;
}
}  // namespace

std::vector<std::vector<size_t>> fused_groups(const std::vector<FusedMember>& members) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::pair<std::string, int64_t>, size_t> known;
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string name = fused_name(members[i].name);
    const auto [it, added] = known.emplace(std::pair{name, members[i].cols}, groups.size());
    if (name.empty() || added) {
      if (name.empty()) known.erase(it);
      groups.push_back({i});
    } else {
      groups[it->second].push_back(i);
    }
  }
  for (std::vector<size_t>& group : groups) {
    std::stable_sort(group.begin(), group.end(), [&](size_t a, size_t b) {
      return part_index(members[a].name) < part_index(members[b].name);
    });
  }
  return groups;
}

}  // namespace minite::checkpoints
