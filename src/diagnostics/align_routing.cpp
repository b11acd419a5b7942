#include "diagnostics/align_routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace minite::diagnostics {
namespace {

/// Experts of each row of one side by choice, -1 where a choice is not there.
class RowExperts {
 public:
  RowExperts(const Capture& side, int layer)
      : k_(std::max<int64_t>(side.manifest().model_number("num_experts_per_tok", 1), 1)),
        expert_(side.rows().size() * static_cast<size_t>(k_), -1) {
    const ExpertTable& table = *side.expert_table(layer);
    for (size_t i = 0; i < table.slot.size(); ++i) {
      if (table.slot[i] >= 0) expert_[static_cast<size_t>(table.slot[i])] = table.expert[i];
    }
  }
  [[nodiscard]] std::vector<int32_t> of(int64_t row) const {
    const auto begin = expert_.begin() + static_cast<std::ptrdiff_t>(row * k_);
    return {begin, begin + static_cast<std::ptrdiff_t>(k_)};
  }
  /// The same, sorted.
  [[nodiscard]] std::vector<int32_t> set_of(int64_t row) const {
    std::vector<int32_t> all = of(row);
    std::ranges::sort(all);
    return all;
  }

 private:
  int64_t k_;
  std::vector<int32_t> expert_;
};

/// Rows of `y` that have the experts of the row of `x` one position earlier, of all that have one there.
struct Shift {
  int64_t fit = 0, rows = 0;
};
Shift shift_of(const RowPairs& pairs, const std::vector<RowId>& ids, const RowExperts& x,
               const RowExperts& y) {
  Shift s;
  for (size_t i = 1; i < pairs.size(); ++i) {  // pairs are in the order of sequence and position
    const RowId &before = ids[static_cast<size_t>(pairs[i - 1].first)],
                &here = ids[static_cast<size_t>(pairs[i].first)];
    if (before.request != here.request || before.sample != here.sample ||
        before.position + 1 != here.position)
      continue;
    ++s.rows;
    s.fit += x.of(pairs[i - 1].first) == y.of(pairs[i].second) ? 1 : 0;
  }
  return s;
}

/// "Every row of B has the experts that A has one position earlier": a recording that is read one row off.
std::string shift_text(const Aligned& s, int layer) {
  const RowExperts x(s.a, layer), y(s.b, layer);
  const RowPairs& pairs = s.comparison.rows.pairs;
  RowPairs swapped;
  for (const auto& [i, j] : pairs) swapped.emplace_back(j, i);
  const Shift b = shift_of(pairs, s.a.rows(), x, y), a = shift_of(swapped, s.b.rows(), y, x);
  const auto text = [](const Shift& shift, char late, char other) {
    return fmt::format(" All {} rows of {} that follow another have the experts of {} one position earlier.",
                       shift.rows, late, other);
  };
  if (b.rows > 0 && b.fit == b.rows) return text(b, 'B', 'A');
  if (a.rows > 0 && a.fit == a.rows) return text(a, 'A', 'B');
  return "";
}

std::string drop_text(int64_t dropped, int64_t whole, const ExpertMatch& m, char side, int layer) {
  if (dropped == 0) return "";
  std::string text = fmt::format(
      "{} dropped {} (row, expert) pairs in layer {}, where {} of {} rows have fewer experts on one "
      "side",
      side, dropped, layer, m.fewer, m.rows);
  if (whole > 0) text += fmt::format(" and {} have none at {}", whole, side);
  return text;
}

}  // namespace

std::string routing_evidence(const Aligned& s, int layer, bool outputs_equal) {
  const ExpertMatch& m = s.comparison.experts.at(layer);
  std::vector<std::string> parts;
  if (m.other > 0)
    parts.push_back(fmt::format("{} of {} rows went to other experts in layer {}", m.other, m.rows, layer));
  for (const std::string& text :
       {drop_text(m.dropped_a, m.whole_a, m, 'A', layer), drop_text(m.dropped_b, m.whole_b, m, 'B', layer)}) {
    if (!text.empty()) parts.push_back(text);
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  if (outputs_equal) text += ", while the router's outputs are equal bit for bit";
  text += fmt::format(". Replay: {}.", s.a.manifest().contract.replay);
  return text + (m.other > 0 ? shift_text(s, layer) : "");
}

int64_t unexplained_rows(const Aligned& s, int layer) {
  const RowExperts x(s.a, layer), y(s.b, layer);
  const std::string name = fmt::format("layers.{}.router.output", layer);
  const bool replayed = s.a.manifest().contract.replay != "off";
  const bool known = s.a.find(name) != nullptr && s.b.find(name) != nullptr;
  const ExpertMatch& m = s.comparison.experts.at(layer);
  // Where a side lacks experts, a row has fewer of them for that reason.
  if ((!replayed && !known) || m.absent_a + m.absent_b > 0) return 0;
  int64_t rows = 0;
  for (const auto& [i, j] : s.comparison.rows.pairs) {
    if (x.set_of(i) == y.set_of(j)) continue;
    const auto same_output = [&, i = i, j = j] {
      const io::TensorInfo &p = s.a.tensor(name), &q = s.b.tensor(name);
      const auto bytes = static_cast<size_t>(row_elements(p) * io::stored_type(p.type).bytes);
      return std::memcmp(p.bytes.data() + static_cast<size_t>(i) * bytes,
                         q.bytes.data() + static_cast<size_t>(j) * bytes, bytes) == 0;
    };
    rows += replayed || same_output() ? 1 : 0;
  }
  return rows;
}

}  // namespace minite::diagnostics
