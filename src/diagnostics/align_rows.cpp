#include "diagnostics/align_rows.h"

#include <algorithm>
#include <climits>

#include "core/fail.h"

namespace minite::diagnostics {
namespace {

using SequenceId = std::pair<int64_t, int32_t>;
struct Place {
  int64_t row;
  int32_t token;
};
using Side = std::map<SequenceId, std::map<int32_t, Place>>;  ///< by sequence, then position

Side by_sequence(const std::vector<RowId>& rows, const std::string& name, int64_t& padding) {
  Side side;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowId& r = rows[i];
    if (r.request < 0) {
      ++padding;
      continue;
    }
    const bool fresh =
        side[{r.request, r.sample}].emplace(r.position, Place{static_cast<int64_t>(i), r.token}).second;
    if (!fresh) fail(ErrorCode::corrupt_data, "{}: the row of {} stands twice", name, to_string(r));
  }
  return side;
}

/// First position at which both sides hold another token.
int32_t split_of(const std::map<int32_t, Place>& a, const std::map<int32_t, Place>& b) {
  for (const auto& [position, place] : a) {
    const auto it = b.find(position);
    if (it != b.end() && it->second.token != place.token) return position;
  }
  return INT_MAX;
}

void match_sequence(const std::map<int32_t, Place>& a, const std::map<int32_t, Place>& b, RowMatch& match) {
  const int32_t split = split_of(a, b);
  for (const auto& [position, place] : a) {
    if (position >= split) {
      ++match.diverged;
    } else if (const auto it = b.find(position); it != b.end()) {
      match.pairs.emplace_back(place.row, it->second.row);
    } else {
      match.only_a.push_back(place.row);
    }
  }
  for (const auto& [position, place] : b) {
    if (position >= split) {
      ++match.diverged;
    } else if (!a.contains(position)) {
      match.only_b.push_back(place.row);
    }
  }
}

/// Expert -> packed row and choice, of each row.
struct Routed {
  std::map<int32_t, std::pair<int64_t, int64_t>> experts;
  std::vector<int32_t> in_order;  ///< experts by choice
};
std::map<int64_t, Routed> routed(const PackedRows& packed, int64_t& padding) {
  std::map<int64_t, Routed> rows;
  for (size_t i = 0; i < packed.slot.size(); ++i) {
    const int64_t slot = packed.slot[i];
    if (slot < 0) {
      ++padding;
      continue;
    }
    rows[slot / packed.k].experts[packed.expert[i]] = {static_cast<int64_t>(i), slot % packed.k};
  }
  for (auto& [row, r] : rows) {
    std::vector<std::pair<int64_t, int32_t>> by_choice;
    for (const auto& [expert, place] : r.experts) by_choice.emplace_back(place.second, expert);
    std::ranges::sort(by_choice);
    for (const auto& [choice, expert] : by_choice) r.in_order.push_back(expert);
  }
  return rows;
}

}  // namespace

RowMatch match_rows(const std::vector<RowId>& a, const std::vector<RowId>& b, const std::string& name_a,
                    const std::string& name_b) {
  RowMatch match;
  const Side left = by_sequence(a, name_a, match.padding), right = by_sequence(b, name_b, match.padding);
  const std::map<int32_t, Place> none;
  for (const auto& [id, rows] : left) {
    const auto it = right.find(id);
    match_sequence(rows, it == right.end() ? none : it->second, match);
  }
  for (const auto& [id, rows] : right) {
    if (!left.contains(id)) match_sequence(none, rows, match);
  }
  return match;
}

ExpertMatch match_experts(const PackedRows& a, const PackedRows& b, const RowPairs& rows) {
  ExpertMatch match;
  const auto left = routed(a, match.padding), right = routed(b, match.padding);
  bool other_seen = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto x = left.find(rows[i].first), y = right.find(rows[i].second);
    if (x == left.end() || y == right.end()) continue;
    ++match.rows;
    for (const auto& [expert, place] : x->second.experts) {
      const auto it = y->second.experts.find(expert);
      if (it != y->second.experts.end()) match.pairs.emplace_back(place.first, it->second.first);
    }
    if (x->second.in_order == y->second.in_order) continue;
    const bool same = std::ranges::equal(x->second.experts, y->second.experts,
                                         [](const auto& p, const auto& q) { return p.first == q.first; });
    ++(same ? match.order : match.other);
    if (match.first < 0 || (!same && !other_seen)) match.first = static_cast<int64_t>(i);
    other_seen = other_seen || !same;
  }
  return match;
}

}  // namespace minite::diagnostics
