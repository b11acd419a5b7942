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
using Routed = std::map<int32_t, std::pair<int64_t, int64_t>>;

std::map<int64_t, Routed> routed(const PackedRows& packed, int64_t& padding) {
  std::map<int64_t, Routed> rows;
  for (size_t i = 0; i < packed.slot.size(); ++i) {
    const int64_t slot = packed.slot[i];
    if (slot < 0) {
      ++padding;
      continue;
    }
    rows[slot / packed.k][packed.expert[i]] = {static_cast<int64_t>(i), slot % packed.k};
  }
  return rows;
}

std::vector<int32_t> by_choice(const Routed& experts) {
  std::vector<std::pair<int64_t, int32_t>> choices;
  for (const auto& [expert, place] : experts) choices.emplace_back(place.second, expert);
  std::ranges::sort(choices);
  std::vector<int32_t> in_order;
  for (const auto& [choice, expert] : choices) in_order.push_back(expert);
  return in_order;
}

/// The part of `experts` that `other` holds; counts the rest.
Routed held_by(const PackedRows& other, const Routed& experts, int64_t& absent) {
  Routed kept;
  for (const auto& [expert, place] : experts) {
    if (other.holds(expert)) {
      kept.emplace(expert, place);
    } else {
      ++absent;
    }
  }
  return kept;
}

/// Compares the experts of one row; whether they differ in more than order.
bool match_row(const Routed& x, const Routed& y, ExpertMatch& match) {
  int64_t common = 0;
  for (const auto& [expert, place] : x) {
    const auto it = y.find(expert);
    if (it == y.end()) continue;
    match.pairs.emplace_back(place.first, it->second.first);
    ++common;
  }
  const int64_t only_x = static_cast<int64_t>(x.size()) - common,
                only_y = static_cast<int64_t>(y.size()) - common;
  const int64_t elsewhere = std::min(only_x, only_y);
  match.dropped_b += only_x - elsewhere;
  match.dropped_a += only_y - elsewhere;
  match.whole_a += x.empty() ? 1 : 0;
  match.whole_b += y.empty() ? 1 : 0;
  if (elsewhere > 0) {
    ++match.other;
  } else if (only_x + only_y > 0) {
    ++match.fewer;
  } else if (by_choice(x) != by_choice(y)) {
    ++match.order;
    return false;
  }
  return only_x + only_y > 0;
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
  const auto of = [](const std::map<int64_t, Routed>& side, int64_t row) {
    const auto it = side.find(row);
    return it == side.end() ? Routed{} : it->second;
  };
  bool differs = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Routed x = held_by(b, of(left, rows[i].first), match.absent_b);
    const Routed y = held_by(a, of(right, rows[i].second), match.absent_a);
    if (x.empty() && y.empty()) continue;
    ++match.rows;
    const int64_t reordered = match.order;
    const bool here = match_row(x, y, match);
    const bool first = here ? !differs : match.order > reordered && match.first < 0;
    if (first) match.first = static_cast<int64_t>(i);
    differs = differs || here;
  }
  return match;
}

}  // namespace minite::diagnostics
