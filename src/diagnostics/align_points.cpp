#include "diagnostics/align_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace minite::diagnostics {
namespace {

constexpr std::string_view kLayers = "layers.";

PackedRows packed_rows(const ExpertTable& table, int64_t k) {
  return {table.expert, table.slot, k, table.held};
}

}  // namespace

PointResult point_named(const std::string& name, int layer, std::string_view module, std::string_view point) {
  PointResult p;
  p.name = name, p.layer = layer, p.module = module, p.point = point;
  return p;
}

void add_experts(const Capture& a, const Capture& b, Comparison& c) {
  const int64_t k = std::max<int64_t>(a.manifest().model_number("num_experts_per_tok", 1), 1);
  for (int layer = 0; layer < a.manifest().model_number("num_hidden_layers", 0); ++layer) {
    const ExpertTable *x = a.expert_table(layer), *y = b.expert_table(layer);
    if (x == nullptr && y == nullptr) continue;
    if (x == nullptr || y == nullptr) {
      c.not_compared.push_back(fmt::format("rows.{}.expert", layer));
      continue;
    }
    const ExpertMatch& m = c.experts[layer] =
        match_experts(packed_rows(*x, k), packed_rows(*y, k), c.rows.pairs);
    c.expert_padding += m.padding;
    PointResult p = point_named(fmt::format("layers.{}.router.experts", layer), layer, "router", "experts");
    p.diff.elements = p.diff.rows = m.rows;
    p.diff.differing = p.diff.differing_rows = m.differing();
    if (m.differing() > 0) {
      p.status = PointStatus::differs;
      p.diff.row = m.first;
    }
    c.points.push_back(p);
  }
}

void add_digests(const Capture& a, const Capture& b, Comparison& c) {
  const auto &x = a.manifest().weights.digests, &y = b.manifest().weights.digests;
  for (const auto& [name, units] : x) {
    const auto it = y.find(name);
    if (it == y.end()) continue;
    PointResult p = point_named(name + ".weight.digest", -1, name, "weight.digest");
    const size_t dot = name.find('.', kLayers.size());
    if (name.starts_with(kLayers) && dot != std::string::npos) {
      std::from_chars(name.data() + kLayers.size(), name.data() + dot, p.layer);
      p.module = name.substr(dot + 1);
    }
    p.diff.rows = p.diff.elements = static_cast<int64_t>(units.size());
    for (size_t i = 0; i < std::max(units.size(), it->second.size()); ++i) {
      const auto at = [&](const std::vector<std::string>& list) {
        return i < list.size() ? list[i] : "absent";
      };
      if (at(units) == at(it->second)) continue;
      if (p.diff.differing++ == 0)
        p.diff.row = static_cast<int64_t>(i), p.diff.a = at(units), p.diff.b = at(it->second);
    }
    p.diff.differing_rows = p.diff.differing;
    if (p.diff.differing > 0) p.status = PointStatus::differs;
    c.points.push_back(std::move(p));
  }
}

void add_scored_rows(const Capture& a, const Capture& b, Comparison& c) {
  std::set<std::pair<int64_t, int32_t>> common;
  for (const auto& [i, j] : c.scored.pairs) {
    const RowId& r = a.scored()[static_cast<size_t>(i)];
    common.emplace(r.request, r.sample);
  }
  PointResult p = point_named("scored.rows", -1, "scored", "rows");
  p.diff.rows = static_cast<int64_t>(c.scored.pairs.size());
  const bool same_selection = a.manifest().selection == b.manifest().selection;
  const auto extra = [&](const Capture& side, const std::vector<int64_t>& only) {
    return same_selection ? std::ranges::count_if(only,
                                                  [&](int64_t i) {
                                                    const RowId& r = side.scored()[static_cast<size_t>(i)];
                                                    return common.contains({r.request, r.sample});
                                                  })
                          : 0;
  };
  const auto in_a = c.scored_only_a = extra(a, c.scored.only_a);
  const auto in_b = c.scored_only_b = extra(b, c.scored.only_b);
  p.diff.differing = p.diff.differing_rows = in_a + in_b;
  p.diff.a = fmt::format("{} more tokens", in_a), p.diff.b = fmt::format("{} more tokens", in_b);
  if (in_a + in_b > 0) p.status = PointStatus::differs;
  c.points.push_back(std::move(p));
}

}  // namespace minite::diagnostics
